#include <algorithm>

#include <lockstep/worker/simulator/cost/timing.h>
#include <lockstep/worker/simulator/input/recorded_costs.h>

namespace lockstep::worker::simulator {

void CostCollector::add(const RankRecord& rank, const RecordedCall& call) {
  if (rank.calls.size() == 1) before_ = nullptr;
  if (before_ != nullptr) before_->step.push_back(std::min(call.pause.count(), kLongest));
  Times& times = times_[call.key.frame];
  before_ = call.outcome ? &times : nullptr;
  if (!call.outcome || call.outcome->kind != CallOutcome::Kind::Compiled) return;
  std::int64_t took = 0;
  for (const RecordedEvent& event : call.events)
    if (event.kind == RecordedEvent::Kind::Trace || event.kind == RecordedEvent::Kind::Compile)
      took = std::min(took + std::min(event.took.count(), kLongest), kLongest);
  times.compile.push_back(took);
}

std::map<std::string, RecordedCost> CostCollector::costs() {
  std::map<std::string, RecordedCost> out;
  for (auto& [frame, of] : times_) {
    RecordedCost& cost = out[frame];
    cost.step_ns = percentiles(of.step).p50;
    if (!of.compile.empty()) cost.compile_ns = percentiles(of.compile).p50;
  }
  return out;
}

Result<std::map<std::string, RecordedCost>> recorded_costs(const std::string& directory) {
  CostCollector collector;
  const auto record = read_record(directory, [&](const RankRecord& rank, const RecordedCall& call) {
    collector.add(rank, call);
  });
  if (!record) return record.error();
  return collector.costs();
}

void put_costs(const std::map<std::string, RecordedCost>& costs, CostModel& out) {
  for (const auto& [frame, cost] : costs) {
    FrameCost& here = out.frames[frame];
    here.step.constant_ns = cost.step_ns;
    if (cost.compile_ns) here.compile.constant_ns = *cost.compile_ns;
  }
}

}  // namespace lockstep::worker::simulator
