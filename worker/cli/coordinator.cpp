// lockstep coordinator
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <lockstep/collectives/base/private_folder.h>
#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/coordinator/server/server.h>
#include <lockstep/worker/agree/process/coordinator_address.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

using namespace lockstep::coordinator;
using collectives::random_secret;
using collectives::read_secret;
using collectives::secret_of;

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0", port_file, token_file, events, store;
};

/// Appends the events of jobs to a file, a line of JSON each. If a write fails, reports that once;
/// the coordinator goes on.
class EventFile {
 public:
  [[nodiscard]] static Result<std::shared_ptr<EventFile>> open(const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
      return environment_error(
          fmt::format("The events cannot be written to {}: {}.", path, std::strerror(errno)));
    return std::make_shared<EventFile>(file, path);
  }
  EventFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
  ~EventFile() { ::close(file_); }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void write(std::string_view lines) {
    while (!full_ && !lines.empty()) {
      const ssize_t n = ::write(file_, lines.data(), lines.size());
      if (n < 0 && errno == EINTR) continue;
      full_ = n <= 0;
      if (full_)
        complain(fmt::format("{} takes no more events ({}); the coordinator goes on without.",
                             path_, std::strerror(errno)),
                 kOk);
      else
        lines.remove_prefix(static_cast<std::size_t>(n));
    }
  }

 private:
  int file_;
  std::string path_;
  bool full_ = false;
};

/// Raises the limit of file descriptors as far as this process may, since each rank needs one.
/// Returns the limit, at most 1,000,000.
std::size_t raise_descriptor_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1'000'000));
}

/// Returns the secret from a file or the environment; nullopt: none is given, so the caller makes
/// one, and anybody who can read the port file may connect.
Result<std::optional<Secret>> shared_secret(const CoordinatorOptions& options,
                                            const Settings& settings) {
  const bool told = options.token_file.empty() && !settings.token.empty();
  const std::string& file = options.token_file.empty() ? settings.token_file : options.token_file;
  if (!told && file.empty()) return std::optional<Secret>{};
  auto secret = told ? secret_of(settings.token, "LOCKSTEP_TOKEN") : read_secret(file);
  if (!secret) return secret.error();
  return std::optional<Secret>(*std::move(secret));
}

Status open_to_strangers(const Endpoint& endpoint) {
  return {Code::Version,
          fmt::format("{} can be reached from other machines, and there is no secret to keep "
                      "strangers out; give one with --token-file or LOCKSTEP_TOKEN, or listen at "
                      "127.0.0.1.",
                      endpoint.text())};
}

/// Removes the port file, unless another coordinator has since written its own there.
void remove_port_file(const std::string& file, const Endpoint& endpoint) {
  if (const auto found = PortFile::read(file); found && found->endpoint == endpoint)
    ::unlink(file.c_str());
}

int serve(Server& server, const std::string& port_file) {
  const std::string ready = fmt::format("lockstep coordinator: ready at {}, port file {}\n",
                                        server.endpoint().text(), port_file);
  const int code = print_result(ready, kOk);
  if (code == kOk) server.run();
  remove_port_file(port_file, server.endpoint());
  return code;
}

int run(const CoordinatorOptions& options) {
  const auto settings = Settings::from_environment();
  if (!settings) return complain(settings.error());
  const auto endpoint = Endpoint::parse(options.listen);
  if (!endpoint) return complain(endpoint.error());
  const auto secret = shared_secret(options, *settings);
  if (!secret) return complain(secret.error());
  if (!*secret && !endpoint->loopback()) return complain(open_to_strangers(*endpoint));
  std::string port_file = options.port_file;
  if (port_file.empty()) port_file = default_port_file(*settings);
  make_private_folder(settings->stores_dir());
  ServerOptions serving;
  serving.listen = *endpoint;
  serving.secret = *secret ? **secret : random_secret();
  PortFile found;
  if (!*secret) found.secret = serving.secret;
  serving.version = LOCKSTEP_VERSION;
  serving.store = options.store.empty() ? settings->stores_dir() : options.store;
  serving.say = [](const std::string& line) { complain(line, kOk); };
  if (!options.events.empty()) {
    const auto events = EventFile::open(options.events);
    if (!events) return complain(events.error());
    serving.record = [file = *events](const std::string& lines) { file->write(lines); };
  }
  // Keeps some descriptors for files, and for connections that will be refused.
  serving.most_connections = std::max<std::size_t>(raise_descriptor_limit(), 128) - 64;
  if (const auto said = collectives::encryption_warning(*endpoint, "the coordinator");
      !said.empty())
    serving.say(said);
  auto server = Server::listen(std::move(serving));
  if (!server) return complain(server.error());
  found.endpoint = (*server)->endpoint();
  if (auto written = found.write(port_file); !written) return complain(written.error());
  return serve(**server, port_file);
}

}  // namespace

std::function<int()> declare_coordinator(CLI::App& app) {
  auto options = std::make_shared<CoordinatorOptions>();
  app.add_option("--listen", options->listen, "numeric address and port; port 0: any that is free")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--port-file", options->port_file,
                 "where its address is left, and its secret if no other file holds it")
      ->type_name("FILE")
      ->default_str("coordinator.port in the cache directory");
  app.add_option("--token-file", options->token_file, "file of mode 0600 with the secret")
      ->type_name("FILE")
      ->default_str("LOCKSTEP_TOKEN, else LOCKSTEP_TOKEN_FILE, else a new one in the port file");
  app.add_option("--store", options->store, "directory of the history of jobs, history.db")
      ->type_name("DIR")
      ->default_str("stores/ in the cache directory");
  app.add_option("--events", options->events,
                 "file at whose end what happens is written, a line of JSON each")
      ->type_name("FILE");
  describe(app, {.text = "Serves until SIGTERM or SIGINT; prints its address on stdout and what it "
                         "finds on stderr.",
                 .codes = {{6, "open to other machines without a secret, or its file not private"},
                           {kEnvironment, "it cannot listen, or a file cannot be written"}},
                 .variables = {"LOCKSTEP_TOKEN", "LOCKSTEP_TOKEN_FILE", "LOCKSTEP_CACHE_DIR"},
                 .examples = {"lockstep coordinator --listen 127.0.0.1:0 --port-file ./watch.port",
                              "lockstep coordinator --listen 10.0.0.1:4700 --token-file token"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
