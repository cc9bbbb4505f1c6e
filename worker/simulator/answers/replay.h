// Replay of a recorded job: the call machines run again on what the ranks observed and on the
// results of their traces and compiles. Every action must be the recorded one, byte for byte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/record_reader.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// First action that is not the recorded one.
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
  /// Defects of the record: a cut last line, a last call without end, another version of columns.
  std::vector<std::string> notes;
  /// Frames of rank 0 at the end, by group and frame.
  std::map<std::pair<std::string, std::string>, CodeCache> frames;
  /// Results of the traces of each group's lowest rank, if ranks compile one graph.
  KnownTraces traces;
  /// Advice on how frames would compile less often (recompile_advice.h). Each text names its frame
  /// and occurs once.
  std::vector<std::string> advice;
};

/// Errors: BadInput, if the record contradicts itself or has changed. Without `counterfactual`,
/// DryRunResult::uncoordinated is left out.
[[nodiscard]] Result<Replay> replay(const std::vector<RankRecord>& ranks,
                                    bool counterfactual = true);

/// Recorded calls as a scenario: inputs only, in the order of the calls, read again when they are
/// needed. The ranks outlive it.
[[nodiscard]] Scenario scenario_of(const std::vector<RankRecord>& ranks);

}  // namespace lockstep::worker::simulator
