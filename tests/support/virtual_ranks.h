// Runs the call machines of N ranks side by side in one thread, and carries out their rounds with
// plain folds in place of messages. For tests of the agreement alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/agreement/call_machine.h>

namespace lockstep::worker {

/// One rank's inputs.
using Inputs = ObservationBuilder;

class VirtualRanks {
 public:
  using Tracer = std::function<TraceReport(Rank, const Decision&)>;

  explicit VirtualRanks(int size, DecisionConfig config = {});

  /// Makes one call of frame `f` on all ranks.
  std::vector<CallOutcome> call(const std::vector<Inputs>& inputs);
  /// Makes one call in which each rank has a frame name of its own.
  std::vector<CallOutcome> call(const std::vector<std::string>& frames,
                                const std::vector<Inputs>& inputs);
  /// Makes one call; fails the test if the ranks have different outcomes.
  CallOutcome joint(const std::vector<Inputs>& inputs);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] CodeCache& frame(int rank, const std::string& name = "f");

  Tracer tracer;  // default: the fingerprint of the reported part of the decision, no guards
  std::function<std::optional<Status>(Rank)> compiler;       // default: nothing fails
  std::function<std::string(Rank, std::size_t)> explainer;   // default: "node N of rank R"
  std::function<RankStatus(Rank)> rank_status;               // default: nothing pending
  std::function<std::optional<Status>(int step)> transport;  // a failure of all ranks before a step

  std::function<void(collectives::Vote&)> on_vote;  // alters the result of a vote
  std::function<void(Bytes&)> on_payload;           // alters the payload that ranks receive

  std::vector<std::string> log;  // per rank: the actions of the last call, one per line
  int votes = 0, exchanges = 0, broadcasts = 0;  // in the last call
  std::set<std::pair<CallStage, CallStage>>
      followed;  // stages that followed each other, in all calls

 private:
  void step(std::vector<std::unique_ptr<CallMachine>>& machines);
  int size_;
  DecisionConfig config_;
  std::vector<std::map<std::string, CodeCache>> frames_;
  std::uint64_t calls_ = 0;
};

}  // namespace lockstep::worker
