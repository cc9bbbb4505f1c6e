#include <filesystem>

#include <fmt/format.h>
#include <sys/stat.h>

#include <lockstep/worker/meeting.h>

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
                  "LOCKSTEP_RENDEZVOUS",
                  {}};
  std::error_code failed;
  const std::filesystem::path folder = settings.cache_dir;
  std::filesystem::create_directories(folder.parent_path(), failed);
  ::mkdir(folder.c_str(), 0700);  // where it is there already, reading says what is wrong with it
  return collectives::own_secret(settings.cache_dir + "/rendezvous.token");
}

}  // namespace

Result<std::optional<collectives::TcpOptions>> meeting_of(const Settings& settings,
                                                          std::string build) {
  if (settings.rendezvous.empty()) return std::optional<collectives::TcpOptions>{};
  const auto at = Endpoint::parse(settings.rendezvous);
  if (!at) return at.error();
  if (at->port == 0 || at->address == "0.0.0.0" || at->address == "::")
    return Status{
        Code::BadInput,
        fmt::format("LOCKSTEP_RENDEZVOUS={} is no place to meet at; give an address of the "
                    "host of rank 0 and a port that is free there.",
                    settings.rendezvous),
        "LOCKSTEP_RENDEZVOUS",
        {}};
  auto secret = secret_of(settings, *at);
  if (!secret) return secret.error();
  return std::optional(collectives::TcpOptions{.rendezvous = *at,
                                               .rank = Rank{settings.rank},
                                               .size = settings.world_size,
                                               .secret = *std::move(secret),
                                               .job = settings.job_id,
                                               .build = std::move(build)});
}

}  // namespace lockstep::worker
