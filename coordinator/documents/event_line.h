// One thing that happened in a job, as a line for machines: a JSON object with the same names
// wherever it is read.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep::coordinator {

/// Time of day, for people and for logs of other programs; nothing is decided by it.
using WallTime = std::chrono::system_clock::time_point;

/// What is not known stays out of the line.
struct EventLine {
  WallTime at{};
  Instant mono{0};
  std::string_view level = "info";  // info, warning, error
  std::string job;
  int run = 1;
  std::string_view event;
  RankSet ranks;
  std::string host;  // of the only rank
  std::int32_t pid = 0;
  std::string frame, group;
  std::optional<std::uint64_t> epoch, call;
  std::uint32_t attempt = 0;
  std::string phase, round;  // last seen of the only rank
  std::string graph, code;
  std::optional<Duration> took, waited;
  std::string message;
};

/// With the line's end: ts (UTC, nanoseconds), mono_ns, level, job, run, event, then what is known
/// of ranks (as ranges; rank, host, pid where it is one), frame, group, epoch, call, attempt,
/// phase, round, graph, code, dur_us, wait_us, message.
[[nodiscard]] std::string line_of(const EventLine& event);

}  // namespace lockstep::coordinator
