// What to write so that a frame compiles less: sizes that its code makes numbers again, and lists
// of inputs that grow. For people; no decision depends on it. Called after a compile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/agreement/code_cache.h>

namespace lockstep::worker {

/// Sizes and ints that the entry has as symbols to settle its frame, but that a guard makes one
/// number: a sentence each, with the line.
[[nodiscard]] std::vector<std::string> numbers_again(const Entry& entry);

/// The lists of inputs whose length is all that tells the last of `entries` from two or more before
/// it, each with another length: a sentence each.
[[nodiscard]] std::vector<std::string> growing_lists(const std::vector<Entry>& entries);

/// What a frame says where it first comes to its recompile limit: why the newest entry that this
/// rank's inputs do not fit is not for them, and what to change. `misfits`: as
/// CodeCache::explain().
[[nodiscard]] std::string limit_text(std::string_view frame, const DecisionConfig& config,
                                     const std::vector<Misfit>& misfits);

/// Both, of the last entry.
[[nodiscard]] std::vector<std::string> recompile_advice(const std::vector<Entry>& entries);

}  // namespace lockstep::worker
