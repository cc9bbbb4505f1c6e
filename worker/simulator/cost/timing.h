// What a dry run took in virtual time: per call, and per rank over the whole run. Whole
// nanoseconds. Filled by the clocks of a run (rank_clocks.h); nullopt in a result that has no cost
// model.
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

/// Of some times, by nearest rank: the least value that so many hundredths of them do not exceed.
struct Percentiles {
  std::int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;
  bool operator==(const Percentiles&) const = default;
};
/// Zeros where there are none. Reorders `times`.
[[nodiscard]] Percentiles percentiles(std::span<std::int64_t> times);

/// Of a device's memory, in one call.
struct MemoryPeak {
  std::int64_t bytes = 0;  // on the rank that holds most
  std::int32_t rank = 0;   // the lowest such
  bool operator==(const MemoryPeak&) const = default;
};

/// One call, over the ranks that made it. A round's end waits for the last rank that comes to it,
/// so until that one is there a rank waits; what comes after is agreement.
struct CallTiming {
  std::int64_t begin_ns = 0;      // the first rank comes to the call
  std::int64_t end_ns = 0;        // the last one has made its step
  std::int64_t agreement_ns = 0;  // rounds, from their last arrival to the end on the slowest rank
  std::int64_t compile_ns = 0;    // tracing and compiling, on the slowest rank
  std::int64_t step_ns = 0;       // the step and its collectives, on the slowest rank
  std::int64_t data_ns = 0;       // of step_ns: the collectives
  std::optional<MemoryPeak> memory;  // where the model says what a step holds
  Percentiles wait;                  // for other ranks, before rounds and in the step's collectives
  std::int32_t last_rank = -1;       // that came last to the first round; -1: none, or all at once
  bool operator==(const CallTiming&) const = default;
};

/// The sum, at most kLongestSum.
[[nodiscard]] std::int64_t sum_of_times(std::int64_t a, std::int64_t b);
inline constexpr std::int64_t kLongestSum = std::int64_t{4'000'000'000} * 1'000'000'000;

/// Sums over all calls, by rank. Struct of arrays: a world may have millions of ranks.
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
  std::optional<DataNetwork> data_network;  // as the model has them
  std::optional<DeviceModel> device;
  std::vector<CallTiming> calls;  // as many as the result has
  RankTimes ranks;
  std::int64_t end_ns = 0;      // when the last rank is done
  std::vector<TimeSpan> spans;  // where asked for; of some ranks, in the order of calls
  bool operator==(const Timing&) const = default;
};

}  // namespace lockstep::worker::simulator
