// The virtual times of a dry run: per call, and per rank over the whole run. Whole nanoseconds.
// Made by RunClock (run_clock.h); a result without a cost model has none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/cost/data_network.h>
#include <lockstep/worker/simulator/cost/device_model.h>
#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// Percentiles by nearest rank: p90 is the least of the times that 90 % of the times do not exceed.
struct Percentiles {
  std::int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;
  bool operator==(const Percentiles&) const = default;
};
/// Returns zeros if there are no times. Reorders `times`.
[[nodiscard]] Percentiles percentiles(std::span<std::int64_t> times);

/// Peak of device memory in one call.
struct MemoryPeak {
  std::int64_t bytes = 0;  // bytes on the rank with the most
  std::int32_t rank = 0;   // the lowest such rank
  bool operator==(const MemoryPeak&) const = default;
};

/// Times of one call, over the ranks that made it. A rank waits from its own arrival at a round
/// until the last rank arrives; the rest of the round is agreement.
struct CallTiming {
  std::int64_t begin_ns = 0;         // arrival of the first rank
  std::int64_t end_ns = 0;           // end of the last rank's step
  std::int64_t agreement_ns = 0;     // rounds, from the last arrival to the end on the slowest rank
  std::int64_t compile_ns = 0;       // tracing and compiling, on the slowest rank
  std::int64_t step_ns = 0;          // the step and its collectives, on the slowest rank
  std::int64_t data_ns = 0;          // part of step_ns: the collectives
  std::optional<MemoryPeak> memory;  // set if the model gives a step's memory
  Percentiles wait;                  // waits before rounds and before the step's collectives
  std::int32_t last_rank = -1;       // last to arrive at the first round; -1: none, or all at once
  bool operator==(const CallTiming&) const = default;
};

/// Returns the sum, at most kLongestSum.
[[nodiscard]] std::int64_t sum_of_times(std::int64_t a, std::int64_t b);
inline constexpr std::int64_t kLongestSum = std::int64_t{4'000'000'000} * 1'000'000'000;

/// Sums over all calls, by rank. Separate arrays, since a world may have millions of ranks.
struct RankTimes {
  std::vector<std::int64_t> wait_ns, agreement_ns, compile_ns, step_ns;
  bool operator==(const RankTimes&) const = default;
};

/// What a rank does from one time to another.
enum class SpanKind : std::uint8_t { Wait, Vote, Exchange, Broadcast, Compile, Step, Data };
struct TimeSpan {
  std::uint32_t call = 0;
  std::int32_t rank = 0;
  SpanKind kind = SpanKind::Wait;
  std::int64_t begin_ns = 0, end_ns = 0;
  bool operator==(const TimeSpan&) const = default;
};

struct Timing {
  NetworkModel network;
  std::optional<DataNetwork> data_network;  // as in the model
  std::optional<DeviceModel> device;
  std::vector<CallTiming> calls;  // one per call of the result
  RankTimes ranks;
  std::int64_t end_ns = 0;      // when the last rank ends
  std::vector<TimeSpan> spans;  // if requested, of some ranks, in the order of calls
  bool operator==(const Timing&) const = default;
};

}  // namespace lockstep::worker::simulator
