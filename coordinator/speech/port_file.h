// The file through which those who look for a coordinator learn where it listens and its secret.
#pragma once

#include <optional>
#include <string>

#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::coordinator {

using collectives::Endpoint;
using collectives::Secret;

/// What a coordinator leaves for those who look for it. Three lines: format, address, secret; the
/// last one only where no other file holds the secret.
struct PortFile {
  Endpoint endpoint;
  std::optional<Secret> secret;

  /// As a whole, for this user only (0600). Errors: Environment.
  [[nodiscard]] Result<void> write(const std::string& file) const;
  /// Errors: Environment (no such file), Version (not this user's alone), BadInput (another
  /// format).
  [[nodiscard]] static Result<PortFile> read(const std::string& file);
};

}  // namespace lockstep::coordinator
