// The file from which other processes learn a coordinator's address and secret. The workers of a
// controller use one of the same form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::coordinator {

using collectives::Endpoint;
using collectives::Secret;

inline constexpr std::string_view kCoordinatorFile = "lockstep.coordinator/1";

/// The content of the file. Three lines: format, address, secret; the last one only if no other
/// file holds the secret.
struct PortFile {
  Endpoint endpoint;
  std::optional<Secret> secret;

  /// Writes the file atomically, with mode 0600. `format`: its first line, for the kind of process
  /// that listens. Errors: Environment.
  [[nodiscard]] Result<void> write(const std::string& file,
                                   std::string_view format = kCoordinatorFile) const;
  /// Errors: Environment (no such file), Version (other users may read or own it), BadInput
  /// (another format).
  [[nodiscard]] static Result<PortFile> read(const std::string& file,
                                             std::string_view format = kCoordinatorFile);
};

}  // namespace lockstep::coordinator
