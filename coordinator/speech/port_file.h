// The file from which other processes learn a coordinator's address and secret.
#pragma once

#include <optional>
#include <string>

#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::coordinator {

using collectives::Endpoint;
using collectives::Secret;

/// The content of the file. Three lines: format, address, secret; the last one only if no other
/// file holds the secret.
struct PortFile {
  Endpoint endpoint;
  std::optional<Secret> secret;

  /// Writes the file atomically, with mode 0600. Errors: Environment.
  [[nodiscard]] Result<void> write(const std::string& file) const;
  /// Errors: Environment (no such file), Version (other users may read or own it), BadInput
  /// (another format).
  [[nodiscard]] static Result<PortFile> read(const std::string& file);
};

}  // namespace lockstep::coordinator
