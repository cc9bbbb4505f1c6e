#include <algorithm>
#include <vector>

#include <lockstep/worker/simulator/record_reader.h>
#include <lockstep/worker/simulator/recorded_costs.h>
#include <lockstep/worker/simulator/timing.h>

namespace lockstep::worker::simulator {
namespace {

struct Times {
  std::vector<std::int64_t> compile, step;
};

/// What comes between two calls is the step of the first; nothing is known of the last one's.
class Collector {
 public:
  void add(const RankRecord& rank, const RecordedCall& call) {
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
  std::map<std::string, Times>& times() { return times_; }

 private:
  std::map<std::string, Times> times_;
  Times* before_ = nullptr;  // of the call before, which has ended
};

}  // namespace

Result<std::map<std::string, RecordedCost>> recorded_costs(const std::string& directory) {
  Collector collector;
  const auto record = read_record(directory, [&](const RankRecord& rank, const RecordedCall& call) {
    collector.add(rank, call);
  });
  if (!record) return record.error();
  std::map<std::string, RecordedCost> out;
  for (auto& [frame, of] : collector.times()) {
    RecordedCost& cost = out[frame];
    cost.step_ns = percentiles(of.step).p50;
    if (!of.compile.empty()) cost.compile_ns = percentiles(of.compile).p50;
  }
  return out;
}

}  // namespace lockstep::worker::simulator
