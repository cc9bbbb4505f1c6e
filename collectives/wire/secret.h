// The secret that processes of a job and its coordinator share, and files that contain one.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// A secret that both sides know. It is never logged and never an argument of a program.
using Secret = Bytes;
/// Length of the shortest secret; shorter secrets are refused when they are read.
inline constexpr std::size_t kSecretBytes = 16;
using Nonce = std::array<std::byte, 32>;

/// Reads a small file that is private to this user: a regular file, not a link, that no other user
/// may read or write. Errors: Environment (there is no such file), Version (the file is not
/// private, or too long). Not being private is an error because the file decides who is let in.
[[nodiscard]] Result<std::string> read_private(const std::string& file);
/// The secret in a private `file`, without white space at its end. Errors: those of read_private(),
/// and Version if the secret is shorter than kSecretBytes.
[[nodiscard]] Result<Secret> read_secret(const std::string& file);
/// The secret in `file`. If there is no file, makes one with a random secret, for this user only.
/// Processes that call this at the same time get the same secret. Errors: those of read_secret();
/// Environment.
[[nodiscard]] Result<Secret> own_secret(const std::string& file);
/// The secret in `text`, by the rules of read_secret; errors name its source as `where`.
[[nodiscard]] Result<Secret> secret_of(std::string_view text, std::string_view where);
/// A secret for one start of a job: 32 random bytes as 64 hexadecimal digits.
[[nodiscard]] Secret random_secret();
[[nodiscard]] Nonce random_nonce();

}  // namespace lockstep::collectives
