// The file from which other processes learn a coordinator's address and secret. The workers of a
// controller use a file of the same form.
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

/// The content of the file. Its three lines are format, address and secret. The third line is
/// missing if another file holds the secret.
struct PortFile {
  Endpoint endpoint;
  std::optional<Secret> secret;

  /// Writes the file atomically, with mode 0600. `format` is the first line, which names the kind
  /// of process that listens. Errors: Environment.
  [[nodiscard]] Result<void> write(const std::string& file,
                                   std::string_view format = kCoordinatorFile) const;
  /// Errors: Environment (the file cannot be read), Version (the file is not a private file of this
  /// user), BadInput (the file has another format).
  [[nodiscard]] static Result<PortFile> read(const std::string& file,
                                             std::string_view format = kCoordinatorFile);
};

}  // namespace lockstep::coordinator
