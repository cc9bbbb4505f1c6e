// One event of a job as a line of JSON; the README of this room lists the names.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep::coordinator {

/// Time of day, for people and for other programs' logs; no decision uses it.
using WallTime = std::chrono::system_clock::time_point;

/// Empty fields stay out of the line.
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

/// The line, with its end: ts (UTC, nanoseconds), mono_ns, level, job, run, event, then the known
/// ones of ranks (as ranges; rank, host and pid if it is one), frame, group, epoch, call, attempt,
/// phase, round, graph, code, dur_us, wait_us, message.
[[nodiscard]] std::string line_of(const EventLine& event);

}  // namespace lockstep::coordinator
