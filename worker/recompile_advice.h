// What to write so that a frame compiles less: sizes that its code makes numbers again, and lists
// of inputs that grow. For people; no decision depends on it. Called after a compile.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/code_cache.h>

namespace lockstep::worker {

/// Sizes and ints that the entry has as symbols to settle its frame, but that a guard makes one
/// number: a sentence each, with the line.
[[nodiscard]] std::vector<std::string> numbers_again(const Entry& entry);

/// The lists of inputs whose length is all that tells the last of `entries` from two or more before
/// it, each with another length: a sentence each.
[[nodiscard]] std::vector<std::string> growing_lists(const std::vector<Entry>& entries);

/// Both, of the last entry.
[[nodiscard]] std::vector<std::string> recompile_advice(const std::vector<Entry>& entries);

}  // namespace lockstep::worker
