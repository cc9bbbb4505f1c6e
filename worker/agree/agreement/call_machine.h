// The life of one call of a coordinated frame (README.md, "One call") as a pure state machine: it
// says what to do next; its driver does this and reports the result. A real job and a dry run use
// the same object file: call_driver.cpp drives the machine over a communicator, simulator/cluster
// over virtual ranks.
//
//   lookup - vote -+- run
//                  +- exchange - decide - trace - verify - compile - commit - run
//
// call_stage.h has its stages as a table.
// Nothing here waits, reads a clock, or knows a transport.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/agree/agreement/action.h>
#include <lockstep/worker/agree/agreement/call_stage.h>
#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/agree/agreement/diagnosis.h>
#include <lockstep/worker/agree/agreement/round_key.h>
#include <lockstep/worker/agree/exchange/conflict.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/exchange.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker {

/// Result of a rank's own trace under the decision.
struct TraceReport {
  shapes::Fingerprint graph;
  std::vector<shapes::Guard>
      guards;                     // beyond the decision's own conditions; over its trace_symbols()
  std::optional<Status> failure;  // the user's function threw, or asked for unbacked data
  std::vector<GroupGuard> group_guards;
  /// Host values that guards may mention as well. Their backed symbols follow those of the
  /// decision.
  std::vector<HostValue> host_values;
  /// Sizes that must be equal on all ranks; over the same symbols as guards.
  std::vector<UniformSize> uniform;
  /// Fingerprint of the ordered list of collectives, compared under same_collectives.
  shapes::Fingerprint collectives;
  /// GraphPrints::prefixes, for finding the first difference; may be empty.
  std::vector<shapes::Fingerprint> prefixes;
  /// GraphPrints::skeleton: equal for programs that differ in constants only.
  shapes::Fingerprint skeleton;
  bool caller_built = false;  // the caller's compiler made the program and its guards
};

/// One call on one rank. Single-threaded. `cache` is the frame's cache on this rank. It outlives
/// the machine, which changes it at a successful commit only. The call's consistency is that of
/// `key` if set, else that of `config`.
class CallMachine {
 public:
  CallMachine(Rank self, int size, const DecisionConfig& config, RoundKey key, CodeCache& cache,
              Observation observation, RankStatus rank_status = {});

  /// The next action; unchanged until the matching report below is made.
  [[nodiscard]] const Action& next() const { return action_; }

  /// Replaces the scalars, before the trace. Requires that this changes no entry's host values.
  void renew_scalars(std::vector<std::int64_t> scalars) {
    observation_.scalars = std::move(scalars);
  }
  void voted(const collectives::Vote& result);
  void joined(const Bytes& result);
  void traced(TraceReport report);
  void explained(std::string text);
  /// nullopt: built and loaded.
  void compiled(std::optional<Status> failure);
  /// The transport gave up (a rank is missing or lost): the call ends with that error and the frame
  /// is as before.
  void failed(Status status);

  [[nodiscard]] CallStage stage() const { return stage_; }
  [[nodiscard]] const RoundKey& key() const { return key_; }
  [[nodiscard]] const CodeCache& cache() const { return cache_; }
  /// This rank's report, from traced() on.
  [[nodiscard]] const TraceReport& trace_report() const { return report_; }
  [[nodiscard]] const Observation& observation() const { return observation_; }
  [[nodiscard]] const RankStatus& rank_status() const { return rank_status_; }
  /// True if the decision settles the frame. Known once the exchange has been joined.
  [[nodiscard]] bool settling() const { return settling_; }

 private:
  using Stage = CallStage;
  using ErrorOfTable = std::function<Status(std::vector<RankValue>)>;

  // Stages up to a new entry: call_machine.cpp.
  void called(const collectives::Vote& result);
  void ask_for_witnesses();
  void witnessed(const collectives::Vote& result);
  void choose();
  void compared(bool equal);
  void elected(std::uint64_t lowest);
  void hinted();
  void verify(TraceReport report);
  void verified(const collectives::Vote& result);
  void compared_new(bool equal);
  void build();
  void committed(const collectives::Vote& result);

  // The exchange.
  void gather();
  void rostered(const Bytes& payload);
  void gathered(const Bytes& payload);
  void decided();
  void decide_call();
  void unreadable();

  // The search for the guard or node that differs: call_machine_divergence.cpp.
  void elect_guard();
  void elected_guard(std::uint64_t guard);
  void count_nodes();
  void counted_nodes(const collectives::Vote& result);
  void search_node();
  void searched(bool equal);
  [[nodiscard]] std::size_t middle() const;
  void report_graphs();

  void ask(Stage stage, Action action);
  void vote(Stage stage, RoundKey::Kind kind, std::uint64_t entries, std::uint64_t state,
            std::uint64_t pending, std::optional<collectives::VoteFlag> flag);
  void elect(Stage stage, std::uint64_t mine);
  void collect_rank_table(const std::optional<std::string>& mine, ErrorOfTable error);
  void diagnose_mismatch();
  void finish(CallOutcome outcome);
  void expect(Stage stage, const char* report) const;
  [[nodiscard]] bool compares_graphs() const;

  Rank self_;
  int size_;
  DecisionConfig config_;
  RoundKey key_;
  CodeCache& cache_;
  Observation observation_;
  RankStatus rank_status_;
  Stage stage_ = Stage::Call;
  Action action_;
  /// AND of CodeCache::alike over all ranks, if it may differ between ranks; set from Roster on.
  std::optional<std::uint64_t> alike_;
  ErrorOfTable error_of_table_;   // makes the error from the rank table being collected
  std::uint64_t candidates_ = 0;  // mask of the entries that may still be picked
  std::uint64_t fit_ = 0;         // result of the look-up vote; valid if all hold the same entries
  /// After the look-up vote: true if the ranks' digests of state differ. From Roster on: true if
  /// only their uniform sizes differ.
  bool uniform_differs_ = false;
  bool gathered_ = false;
  bool untested_ = false;          // RankStatus::untested of some rank
  bool guard_failed_ = false;      // a guard of the new entry is false on some rank
  bool same_list_ = false;         // all ranks hold the same source list and stored state
  JointObservation joint_;         // from Gather on
  Decision decision_, reported_;   // from Gather on
  TraceReport report_;             // from Trace on
  shapes::Fingerprint compared_;   // from Verify on: what must be equal on all ranks
  std::optional<Entry> entry_;     // from Verify on
  std::optional<Status> failure_;  // of this rank, at Trace or Compile
  bool settling_ = false;          // the decision settles the frame
  bool falls_back_ = false;        // past the recompile limit: traced and compared, not compiled
  std::size_t failed_guard_ = 0;
  std::size_t most_nodes_ = 0;                       // number of nodes of the largest graph
  bool only_constants_ = false;                      // equal skeletons on all ranks
  std::size_t equal_nodes_ = 0, unequal_nodes_ = 0;  // bounds of search_node()
};

}  // namespace lockstep::worker
