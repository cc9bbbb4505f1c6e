// One event of a job as a line of JSON; the README of this room lists the names.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep::coordinator {

/// Time of day, for people and to compare with logs of other programs; no decision uses it.
using WallTime = std::chrono::system_clock::time_point;

/// Empty fields are omitted from the line.
struct EventLine {
  WallTime at{};
  Instant mono{0};
  std::string_view level = "info";  // info, warning, error
  std::string job;
  int run = 1;
  std::string_view event;
  RankSet ranks;
  std::string host;  // if `ranks` is one rank
  std::int32_t pid = 0;
  std::string frame, group;
  std::optional<std::uint64_t> epoch, call;
  std::uint32_t attempt = 0;
  std::string phase, round;  // last seen, if `ranks` is one rank
  std::string graph, code;
  std::optional<Duration> took, waited;
  std::string message;
};

/// The line, with its line end: ts (UTC, nanoseconds), mono_ns, level, job, run, event, then those
/// of the following that are known: ranks (as ranges; for a single rank also rank, host and pid),
/// frame, group, epoch, call, attempt, phase, round, graph, code, dur_us, wait_us, message.
[[nodiscard]] std::string line_of(const EventLine& event);

}  // namespace lockstep::coordinator
