// The entries that a frame starts from, without their programs: what look-ups and votes need.
// Records store them for replay.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/files/saved/saved_program.h>

namespace lockstep::worker {

/// Returns the entries in the order of the program.
[[nodiscard]] std::vector<Entry> start_entries(const SavedProgram& program);
/// Commits `entries` to the cache of a frame that has not been called. All ranks must do the same.
void start_from(CodeCache& cache, std::vector<Entry> entries);

[[nodiscard]] Bytes encode_starts(const std::vector<Entry>& entries);
/// Errors: BadInput.
[[nodiscard]] Result<std::vector<Entry>> decode_starts(std::span<const std::byte> bytes);

}  // namespace lockstep::worker
