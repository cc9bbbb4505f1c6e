#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/base/private_folder.h>
#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/coordinator/messages/port_file.h>
#include <lockstep/worker/agree/process/world.h>
#include <lockstep/worker/controller/workers/command_batch.h>
#include <lockstep/worker/controller/workers/worker_loop.h>
#include <lockstep/worker/controller/workers/workers.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {
namespace {

using collectives::Secret;
using coordinator::PortFile;

/// Returns the secret of the environment. Without one, any process that can read the address file
/// may connect.
Result<std::optional<Secret>> told_secret(const Settings& settings) {
  if (settings.token.empty() && settings.token_file.empty()) return std::optional<Secret>{};
  auto secret = settings.token.empty() ? collectives::read_secret(settings.token_file)
                                       : collectives::secret_of(settings.token, "LOCKSTEP_TOKEN");
  if (!secret) return secret.error();
  return std::optional(*std::move(secret));
}

/// Worker 0's listener and its address file, which the destructor removes.
class Door {
 public:
  Door() = default;
  ~Door() {
    if (file_.empty()) return;
    // Workers of another job may have written their address there since.
    if (const auto found = PortFile::read(file_, kWorkersFile); found && found->endpoint == at_)
      ::unlink(file_.c_str());
  }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  Result<std::unique_ptr<LeadServer>> open(const WorkerOptions& options, const Settings& settings) {
    const auto endpoint = collectives::Endpoint::parse(options.listen);
    if (!endpoint) return endpoint.error();
    const auto told = told_secret(settings);
    if (!told) return told.error();
    if (!*told && !endpoint->loopback())
      return Status{Code::Version,
                    fmt::format("{} can be reached from other machines, and there is no secret to "
                                "keep strangers out; give one with LOCKSTEP_TOKEN_FILE or "
                                "LOCKSTEP_TOKEN, or listen at 127.0.0.1",
                                endpoint->text())};
    LeadServerOptions serving{.listen = *endpoint,
                              .secret = *told ? **told : collectives::random_secret()};
    serving.say = [](const std::string& line) {
      const std::string text = "lockstep worker: " + line + ".\n";
      std::fputs(text.c_str(), stderr);
    };
    PortFile found;
    if (!*told) found.secret = serving.secret;
    if (const auto said = collectives::encryption_warning(*endpoint, "the controller's connection");
        !said.empty())
      serving.say(said);
    auto server = LeadServer::listen(std::move(serving));
    if (!server) return server.error();
    found.endpoint = at_ = (*server)->endpoint();
    file_ = options.address_file.empty() ? default_workers_file(settings) : options.address_file;
    if (options.address_file.empty()) make_private_folder(settings.cache_dir);
    if (auto written = found.write(file_, kWorkersFile); !written) return written.error();
    return server;
  }
  [[nodiscard]] std::string ready() const {
    return fmt::format("lockstep worker: ready at {}, address file {}", at_.text(), file_);
  }

 private:
  collectives::Endpoint at_;
  std::string file_;
};

}  // namespace

std::string default_workers_file(const Settings& settings) {
  return settings.cache_dir + "/workers.address";
}

int run_worker(const WorkerOptions& options, const Settings& settings,
               const std::function<void(const std::string& line)>& ready) {
  // The watchdog starts first, and sends its verdict to the controller through the server.
  const auto last_word = std::make_shared<FinalReport>();
  auto job = Job::init(nullptr, nullptr,
                       {.settings = settings,
                        .summary = false,
                        .before_end = [last_word](const Status& why) { last_word->send(why); }});
  if (!job) return Job::report(job.error());
  Door door;
  std::optional<WorkerLoop> loop;
  return (*job)->run([&]() -> Result<void> {
    std::optional<Status> wrong;
    std::unique_ptr<Lead> lead;
    if ((*job)->rank() == 0) {
      auto server = door.open(options, settings);
      if (server) {
        const std::shared_ptr<LeadServer> listener = *std::move(server);
        last_word->send_through([listener](const Status& why) { listener->last_word(why); });
        lead = std::make_unique<Lead>(listener, options.patience);
      } else {
        wrong = server.error();
      }
    }
    const auto failure = first_failure(*(*job)->context().everyone.data, wrong);
    if (!failure) return failure.error();
    if (*failure) return **failure;
    if (lead) ready(door.ready());
    loop.emplace(**job, std::move(lead));
    return loop->run();
  });
}

}  // namespace lockstep::worker
