// Where a coordinator listens, the secret that it shares with those who may speak to it, and the
// file through which the two learn both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/session.h>

namespace lockstep::coordinator {

/// A numeric address and a port: names are not looked up, for that may take a time of its own.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;

  /// "127.0.0.1:4711", "[::1]:0". Errors: BadInput.
  [[nodiscard]] static Result<Endpoint> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  /// Nothing outside this machine can reach it.
  [[nodiscard]] bool loopback() const;
  bool operator==(const Endpoint&) const = default;
};

/// The secret in `file`: what it holds, less white space at its end. It must be a regular file of
/// this user, not a link, and nobody else's to read or write. Errors: Version (what is wrong with
/// the file, or its secret is shorter than kSecretBytes), for it decides who is let in.
[[nodiscard]] Result<Secret> read_secret(const std::string& file);
/// The same rule for a secret from elsewhere; `where` is what the sentence calls it.
[[nodiscard]] Result<Secret> secret_of(std::string_view text, std::string_view where);
/// A secret for this start alone: 32 random bytes as 64 hexadecimal digits.
[[nodiscard]] Secret random_secret();
[[nodiscard]] Nonce random_nonce();

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
