// The secret that processes of a job and its coordinator share, and files that hold one.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// What both sides know; never logged, never an argument of a program.
using Secret = Bytes;
/// Shorter secrets are refused where they are read.
inline constexpr std::size_t kSecretBytes = 16;
using Nonce = std::array<std::byte, 32>;

/// All of a small file that is this user's alone: regular, no link, nobody else's to read or write.
/// Errors: Environment (no such file), Version (what is wrong with it, for it decides who is let
/// in).
[[nodiscard]] Result<std::string> read_private(const std::string& file);
/// The secret in such a `file`: what it holds, less white space at its end. Errors: as
/// read_private, and Version where it is shorter than kSecretBytes.
[[nodiscard]] Result<Secret> read_secret(const std::string& file);
/// The secret in `file`, which is made with a random one where there is none yet, for this user
/// only; processes that do so at once all have the same. Errors: as read_secret; Environment.
[[nodiscard]] Result<Secret> own_secret(const std::string& file);
/// The same rule for a secret from elsewhere; `where` is what the sentence calls it.
[[nodiscard]] Result<Secret> secret_of(std::string_view text, std::string_view where);
/// A secret for this start alone: 32 random bytes as 64 hexadecimal digits.
[[nodiscard]] Secret random_secret();
[[nodiscard]] Nonce random_nonce();

}  // namespace lockstep::collectives
