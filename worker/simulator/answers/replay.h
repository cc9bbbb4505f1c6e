// Replay of a recorded job: from what the ranks observed and what their traces and compiles came
// to, the call machines do it all again. Every action must be the one recorded, byte for byte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agreement/code_cache.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/record_reader.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// The first action that is not the recorded one.
struct Difference {
  Rank rank;
  RoundKey key;
  std::string where;  // "FILE:LINE"
  std::string recorded, replayed;
  /// One sentence.
  [[nodiscard]] std::string text() const;
};

struct Replay {
  DryRunResult result;
  std::optional<Difference> difference;
  /// What the record lacks: ranks whose last line was cut or whose last call has no end.
  std::vector<std::string> notes;
  /// What rank 0 holds at the end, by group and frame.
  std::map<std::pair<std::string, std::string>, CodeCache> frames;
  /// What rank 0's traces came to, where ranks compile one graph.
  KnownTraces traces;
  /// What to write so that frames compile less (recompile_advice.h), each once, with its frame.
  std::vector<std::string> advice;
};

/// Errors: BadInput, where the record contradicts itself, or is no longer what it was.
/// `counterfactual`: else DryRunResult::uncoordinated is left out.
[[nodiscard]] Result<Replay> replay(const std::vector<RankRecord>& ranks,
                                    bool counterfactual = true);

/// The recorded calls as a scenario: inputs only, in the order of the calls, read again when their
/// turn comes. The ranks outlive it.
[[nodiscard]] Scenario scenario_of(const std::vector<RankRecord>& ranks);

}  // namespace lockstep::worker::simulator
