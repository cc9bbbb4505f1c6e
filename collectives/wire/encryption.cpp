#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/collectives/wire/encryption.h>

namespace lockstep::collectives {

Result<bool> encryption_wanted() {
  const char* said = std::getenv("LOCKSTEP_ENCRYPTION");
  const std::string_view word = said == nullptr ? "" : said;
  if (word.empty() || word == "on") return true;
  if (word == "off") return false;
  return bad_input(
      fmt::format("LOCKSTEP_ENCRYPTION={} is not understood; it takes on, which is the default, or "
                  "off.",
                  word),
      "LOCKSTEP_ENCRYPTION");
}

Encryption encryption_to(const Endpoint& server) {
  const auto wanted = encryption_wanted();
  const bool off = wanted.has_value() && !*wanted;
  return server.loopback() || off ? Encryption::Off : Encryption::On;
}

Encryption encryption_from(std::string_view address) {
  return encryption_to({std::string(address), 0}) == Encryption::On ? Encryption::On
                                                                    : Encryption::AsTheClient;
}

std::string encryption_warning(const Endpoint& at, std::string_view what) {
  if (at.loopback() || encryption_to(at) == Encryption::On) return {};
  return fmt::format(
      "LOCKSTEP_ENCRYPTION=off: {} at {} is not encrypted; who listens on the network "
      "can read sizes, tensors and reports",
      what, at.text());
}

}  // namespace lockstep::collectives
