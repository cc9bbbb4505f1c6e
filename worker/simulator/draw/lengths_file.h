// Observed lengths in a text or CSV file: one length per line, or a length and its number of
// occurrences.
#pragma once

#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/simulator/draw/distribution.h>

namespace lockstep::worker::simulator {

inline constexpr std::size_t kMaxLengthsBytes = std::size_t{64} << 20;

/// Returns the lengths in a file's text, ascending, each once. Lines are "LENGTH" or
/// "LENGTH,COUNT", with optional spaces around numbers. Empty lines and lines that start with # are
/// skipped; the first other line may hold column names. Errors: BadInput, "NAME:LINE: what is
/// wrong".
[[nodiscard]] Result<std::vector<Bin>> parse_lengths(std::string_view text, std::string_view name);

/// As parse_lengths, for a file of up to kMaxLengthsBytes. Errors: BadInput.
[[nodiscard]] Result<std::vector<Bin>> read_lengths_file(const std::string& path);

}  // namespace lockstep::worker::simulator
