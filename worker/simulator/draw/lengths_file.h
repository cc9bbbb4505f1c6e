// Lengths seen somewhere, as a text or CSV file: one length a line, or a length and how often it
// occurred.
#pragma once

#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/simulator/draw/distribution.h>

namespace lockstep::worker::simulator {

inline constexpr std::size_t kMaxLengthsBytes = std::size_t{64} << 20;

/// The lengths in a file's text, ascending, each once: lines "LENGTH" or "LENGTH,COUNT", with
/// spaces around numbers as one likes. Empty lines and lines that start with # say nothing; the
/// first of the others may be names of columns. Errors: BadInput, "NAME:LINE: what is wrong".
[[nodiscard]] Result<std::vector<Bin>> parse_lengths(std::string_view text, std::string_view name);

/// The same of a file of up to kMaxLengthsBytes. Errors: BadInput.
[[nodiscard]] Result<std::vector<Bin>> read_lengths_file(const std::string& path);

}  // namespace lockstep::worker::simulator
