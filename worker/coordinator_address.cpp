#include <optional>

#include <fmt/format.h>

#include <lockstep/worker/coordinator_address.h>

namespace lockstep::worker {
namespace {

using coordinator::Endpoint;
using coordinator::PortFile;
using coordinator::Secret;

bool is_file(const std::string& where) {
  return where.find('/') != std::string::npos || where.find(':') == std::string::npos;
}

/// Where to go, with the secret that was found beside it.
Result<PortFile> look_up(const Settings& settings, std::string where) {
  if (where.empty()) where = settings.coordinator;
  if (!where.empty() && !is_file(where)) {
    const auto endpoint = Endpoint::parse(where);
    if (!endpoint) return endpoint.error();
    const auto beside = PortFile::read(default_port_file(settings));
    const bool same = beside && beside->endpoint == *endpoint;
    return PortFile{*endpoint, same ? beside->secret : std::nullopt};
  }
  const bool anywhere = where.empty();
  auto found = PortFile::read(anywhere ? default_port_file(settings) : where);
  if (found || !anywhere || found.error().code != Code::Environment) return found;
  return Status{Code::Environment,
                fmt::format("No coordinator is known: there is no port file {}; start one with "
                            "lockstep coordinator, or say where it is (its address or its port "
                            "file, or LOCKSTEP_COORDINATOR).",
                            default_port_file(settings))};
}

}  // namespace

std::string default_port_file(const Settings& settings) {
  return settings.cache_dir + "/coordinator.port";
}

Result<CoordinatorAddress> CoordinatorAddress::find(const Settings& settings,
                                                    const std::string& where,
                                                    const std::string& token_file) {
  auto found = look_up(settings, where);
  if (!found) return found.error();
  const auto with = [&](Result<Secret> secret) -> Result<CoordinatorAddress> {
    if (!secret) return secret.error();
    return CoordinatorAddress{found->endpoint, *std::move(secret)};
  };
  if (!token_file.empty()) return with(collectives::read_secret(token_file));
  if (!settings.token.empty())
    return with(collectives::secret_of(settings.token, "LOCKSTEP_TOKEN"));
  if (!settings.token_file.empty()) return with(collectives::read_secret(settings.token_file));
  if (found->secret) return with(*found->secret);
  return Status{Code::Version,
                fmt::format("The coordinator at {} asks for a secret, and none is known; give its "
                            "port file instead of its address, or its --token-file, or "
                            "LOCKSTEP_TOKEN.",
                            found->endpoint.text())};
}

}  // namespace lockstep::worker
