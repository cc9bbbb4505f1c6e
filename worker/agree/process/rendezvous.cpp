#include <filesystem>

#include <fmt/format.h>
#include <sys/stat.h>

#include <lockstep/collectives/base/private_folder.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/process/rendezvous.h>

namespace lockstep::worker {
namespace {

using collectives::Endpoint;
using collectives::Secret;

Result<Secret> secret_of(const Settings& settings, const Endpoint& at) {
  if (!settings.token.empty()) return collectives::secret_of(settings.token, "LOCKSTEP_TOKEN");
  if (!settings.token_file.empty()) return collectives::read_secret(settings.token_file);
  if (!at.loopback())
    return Status{Code::Version,
                  fmt::format("The rendezvous {} can be reached from other machines, and there is "
                              "no secret to keep strangers out; give one with LOCKSTEP_TOKEN_FILE "
                              "or LOCKSTEP_TOKEN, or meet at 127.0.0.1.",
                              at.text()),
                  "LOCKSTEP_RENDEZVOUS"};
  std::error_code failed;
  const std::filesystem::path folder = settings.cache_dir;
  std::filesystem::create_directories(folder.parent_path(), failed);
  ::mkdir(folder.c_str(), 0700);  // errors are found when the secret is read
  return collectives::own_secret(settings.cache_dir + "/rendezvous.token");
}

Status on_several_hosts(const Launcher& launcher) {
  return environment_error(
      fmt::format(
          "{} ranks were started together, {}, and no MPI joins them: say where "
          "they meet over TCP, at an address of the host of rank 0 and with a secret in a file "
          "of mode 0600 that all hosts have: {}, and LOCKSTEP_TOKEN_FILE=FILE likewise.",
          launcher.size,
          launcher.one_host ? "on several hosts" : "it is not known whether on one host",
          with_variable(launcher.kind, "LOCKSTEP_RENDEZVOUS", "ADDRESS:PORT")),
      "LOCKSTEP_RENDEZVOUS");
}

/// The options that do not depend on the place of the rendezvous.
collectives::TcpOptions tcp_options_of(Rank rank, int size, const Settings& settings,
                                       std::string build) {
  collectives::TcpOptions out;
  out.rank = rank;
  out.size = size;
  out.job = settings.job_id;
  out.build = std::move(build);
  return out;
}

}  // namespace

Result<std::optional<collectives::TcpOptions>> rendezvous_of(const Settings& settings,
                                                             std::string build) {
  if (settings.rendezvous.empty()) return std::optional<collectives::TcpOptions>{};
  const auto untold = [](const char* name, int least) {
    return bad_input(
        fmt::format("{}= is not understood; it takes a whole number from {} up.", name, least),
        name);
  };
  if (settings.rank == Settings::kUnset) return untold("LOCKSTEP_RANK", 0);
  if (settings.world_size == Settings::kUnset) return untold("LOCKSTEP_WORLD_SIZE", 1);
  auto options =
      tcp_options_of(Rank{settings.rank}, settings.world_size, settings, std::move(build));
  if (settings.rendezvous.starts_with('/')) {
    options.file = settings.rendezvous;
    return std::optional(std::move(options));
  }
  const auto at = Endpoint::parse(settings.rendezvous);
  if (!at) return at.error();
  if (at->port == 0 || at->address == "0.0.0.0" || at->address == "::")
    return bad_input(
        fmt::format("LOCKSTEP_RENDEZVOUS={} is no place to meet at; give an address of the "
                    "host of rank 0 and a port that is free there.",
                    settings.rendezvous),
        "LOCKSTEP_RENDEZVOUS");
  auto secret = secret_of(settings, *at);
  if (!secret) return secret.error();
  options.rendezvous = *at;
  options.secret = *std::move(secret);
  options.encryption = collectives::encryption_to(*at);
  return std::optional(std::move(options));
}

Result<std::optional<collectives::TcpOptions>> launched_rendezvous(
    const Settings& settings, const std::optional<Launcher>& launcher, std::string build) {
  if (!launcher || launcher->size == 1) return std::optional<collectives::TcpOptions>{};
  if (launcher->one_host != true) return on_several_hosts(*launcher);
  auto options = tcp_options_of(Rank{launcher->rank}, launcher->size, settings, std::move(build));
  const std::string folder = settings.cache_dir + "/rendezvous";
  make_private_folder(folder);
  options.file = folder + "/" + shapes::fingerprint(launcher->id).text();
  return std::optional(std::move(options));
}

}  // namespace lockstep::worker
