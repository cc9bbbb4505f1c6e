#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <lockstep/collectives/base/private_folder.h>
#include <lockstep/worker/agree/process/coordinator_address.h>
#include <lockstep/worker/agree/process/embedded_coordinator.h>

namespace lockstep::worker {
namespace {

/// Maximum time for which the end of the job waits for ranks to disconnect.
constexpr std::chrono::milliseconds kGoodbyes{5'000};

/// Blocks signals while a thread is created, so that only the program's own threads receive them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

coordinator::ServerOptions options_of(const Settings& settings, const Log& log) {
  using Kind = coordinator::Finding::Kind;
  coordinator::ServerOptions options;
  options.secret = collectives::random_secret();
  options.version = LOCKSTEP_VERSION;
  options.store = settings.stores_dir();
  options.signals = false;
  // The watchdogs of the host detect the end of a process and end the job with a report.
  options.silenced_kinds = {Kind::Lost, Kind::Absent};
  options.say = [log](const std::string& line) { log.line("info", "lockstep: " + line); };
  return options;
}

}  // namespace

Result<std::unique_ptr<EmbeddedCoordinator>> EmbeddedCoordinator::start(const Settings& settings,
                                                                        const std::string& job,
                                                                        const Log& log) {
  std::unique_ptr<EmbeddedCoordinator> out(new EmbeddedCoordinator);
  make_private_folder(settings.stores_dir());
  coordinator::ServerOptions options = options_of(settings, log);
  out->at_.secret = options.secret;
  auto server = coordinator::Server::listen(std::move(options));
  if (!server) return server.error();
  out->server_ = std::move(*server);
  out->at_.endpoint = out->server_->endpoint();
  const std::string file = job_port_file(settings, job, ::getpid());
  make_private_folder(std::filesystem::path(file).parent_path());
  if (auto written = out->at_.write(file); !written) return written.error();
  out->port_file_ = file;
  const SignalsBlocked blocked;
  try {
    out->thread_ = std::thread([server = out->server_.get()] { server->run(); });
  } catch (const std::system_error& error) {
    return environment_error(fmt::format("The coordinator cannot start: {}.", error.what()));
  }
  return out;
}

EmbeddedCoordinator::~EmbeddedCoordinator() {
  if (!port_file_.empty()) ::unlink(port_file_.c_str());
  if (!thread_.joinable()) return;
  const SystemClock clock;
  const Instant until = clock.now() + kGoodbyes;
  while (server_->speakers() > 0 && clock.now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_->stop();
  thread_.join();
}

}  // namespace lockstep::worker
