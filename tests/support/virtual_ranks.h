// Runs the call machines of N ranks side by side in one thread, doing what they ask for with plain
// folds in place of messages. For tests of the agreement alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agreement/call_machine.h>

namespace lockstep::worker {

/// One rank's inputs.
using Inputs = ObservationBuilder;

class VirtualRanks {
 public:
  using Tracer = std::function<TraceReport(Rank, const Decision&)>;

  explicit VirtualRanks(int size, DecisionConfig config = {});

  /// One call of frame `f` by all ranks.
  std::vector<CallOutcome> call(const std::vector<Inputs>& inputs);
  /// The same, with each rank's own frame name.
  std::vector<CallOutcome> call(const std::vector<std::string>& frames,
                                const std::vector<Inputs>& inputs);
  /// One call for which all ranks end alike; fails the test if they do not.
  CallOutcome joint(const std::vector<Inputs>& inputs);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] CodeCache& frame(int rank, const std::string& name = "f");

  Tracer tracer;  // default: the fingerprint of the reported part of the decision, no guards
  std::function<std::optional<Status>(Rank)> compiler;       // default: nothing fails
  std::function<std::string(Rank, std::size_t)> explainer;   // default: "node N of rank R"
  std::function<RankStatus(Rank)> rank_status;               // default: nothing pending
  std::function<std::optional<Status>(int step)> transport;  // a failure of all ranks before a step

  std::function<void(collectives::Vote&)> on_vote;  // alters what a vote comes to
  std::function<void(Bytes&)> on_payload;           // and what the ranks receive

  std::vector<std::string> log;  // per rank: the actions of the last call, one per line
  int votes = 0, exchanges = 0, broadcasts = 0;  // of the last call
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
