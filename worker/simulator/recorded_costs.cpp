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
void collect(const RankRecord& rank, std::map<std::string, Times>& out) {
  for (std::size_t c = 0; c < rank.calls.size(); ++c) {
    const RecordedCall& call = rank.calls[c];
    Times& times = out[call.key.frame];
    if (c + 1 < rank.calls.size() && call.outcome)
      times.step.push_back(std::min(rank.calls[c + 1].pause.count(), kLongest));
    if (!call.outcome || call.outcome->kind != CallOutcome::Kind::Compiled) continue;
    std::int64_t took = 0;
    for (const RecordedEvent& event : call.events)
      if (event.kind == RecordedEvent::Kind::Trace || event.kind == RecordedEvent::Kind::Compile)
        took = std::min(took + std::min(event.took.count(), kLongest), kLongest);
    times.compile.push_back(took);
  }
}

}  // namespace

Result<std::map<std::string, RecordedCost>> recorded_costs(const std::string& directory) {
  const auto record = read_record(directory);
  if (!record) return record.error();
  std::map<std::string, Times> times;
  for (const RankRecord& rank : *record) collect(rank, times);
  std::map<std::string, RecordedCost> out;
  for (auto& [frame, of] : times) {
    RecordedCost& cost = out[frame];
    cost.step_ns = percentiles(of.step).p50;
    if (!of.compile.empty()) cost.compile_ns = percentiles(of.compile).p50;
  }
  return out;
}

}  // namespace lockstep::worker::simulator
