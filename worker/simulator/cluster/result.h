// The result of a dry run, and its JSON (result.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/agreement/action.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/simulator/cluster/drawn_report.h>
#include <lockstep/worker/simulator/cluster/fault_report.h>
#include <lockstep/worker/simulator/cluster/run_variant.h>
#include <lockstep/worker/simulator/cost/timing.h>

namespace lockstep::worker::simulator {

/// Returns a fingerprint that distinguishes programs. It covers all of a decision except hints, and
/// except whether specialising a size is an error.
[[nodiscard]] shapes::Fingerprint program_of(Decision decision);

/// The decision of a call's new entry on some ranks.
struct OwnDecision {
  RankSet ranks;
  Decision decision;
};

/// The decisions that ranks hold. own_decisions() returns each different program once, in the order
/// of `held`.
using HeldDecisions = std::vector<std::pair<RankSet, const Decision*>>;
[[nodiscard]] std::vector<OwnDecision> own_decisions(const HeldDecisions& held);

/// The result of one call on all ranks.
struct CallResult {
  std::optional<std::string> frame;
  CallOutcome outcome;
  std::optional<Decision> reported;  // set if the call compiled
  std::vector<OwnDecision> own;      // if it compiled under shared_sizes: each different decision
};

/// What would have happened without coordination: every rank alone, by the rules for a group of
/// one.
struct Uncoordinated {
  int compiles_per_rank_max = 0;
  std::optional<std::size_t> first_divergent_call;
  int distinct_graphs_max = 0;
  std::size_t compiles = 0, reuses = 0, fallbacks = 0, errors = 0;  // calls, as in RunVariant
  bool operator==(const Uncoordinated&) const = default;
};

struct DryRunResult {
  int world_size = 1;
  std::vector<CallResult> calls;
  /// Payload handed to the transport for receiving, summed over the run, for the rank with the
  /// most. Rounds that never ended because ranks were absent are not counted.
  std::uint64_t bytes_per_rank_max = 0;
  std::uint64_t rounds = 0;                    // votes, exchanges, verifications, commits
  std::optional<Uncoordinated> uncoordinated;  // nullopt: left out
  std::vector<RunVariant> compare;             // empty: not requested
  std::optional<FaultReport> faults;           // set if the scenario has faults
  std::optional<DrawnFrom> drawn;              // set if ranks drew from a record
  std::optional<MarkAdvice> advice;            // set for a record
  std::optional<Timing> timing;                // nullopt: the scenario has no costs
};

/// Number of calls with each outcome.
struct Totals {
  std::size_t compiles = 0, reuses = 0, fallbacks = 0, errors = 0;
};
[[nodiscard]] Totals totals(const DryRunResult& result);

/// One document, a call per line, ending in a newline. Equal results give equal bytes.
[[nodiscard]] std::string result_json(const DryRunResult& result);

/// "compiled", "reused", "fallback", "error"
[[nodiscard]] std::string_view outcome_name(CallOutcome::Kind kind);

}  // namespace lockstep::worker::simulator
