// Advice to users on how a frame compiles less. Its subjects are symbols that the frame's code
// fixes to numbers again, and lists of inputs that grow. No decision depends on it. Called after a
// compile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/agree/agreement/code_cache.h>

namespace lockstep::worker {

/// One sentence, with the line of code, for each size or int that became a symbol to settle the
/// frame and that a guard fixes to one number.
[[nodiscard]] std::vector<std::string> numbers_again(const Entry& entry);

/// One sentence for each list of inputs whose length is the only difference between the last of
/// `entries` and two or more earlier ones, each with another length.
[[nodiscard]] std::vector<std::string> growing_lists(const std::vector<Entry>& entries);

/// Message for a frame that first reaches its recompile limit: why the newest of `misfits` does not
/// fit this rank's inputs, and what to change. `misfits`: as CodeCache::explain().
[[nodiscard]] std::string limit_text(std::string_view frame, const DecisionConfig& config,
                                     const std::vector<Misfit>& misfits);

/// growing_lists(), and numbers_again() of the last entry.
[[nodiscard]] std::vector<std::string> recompile_advice(const std::vector<Entry>& entries);

}  // namespace lockstep::worker
