// The metrics of the coordinator in Prometheus text format 0.0.4.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <lockstep/coordinator/documents/event_log.h>
#include <lockstep/coordinator/server/connection.h>

namespace lockstep::coordinator {

/// Numbers of refused wire frames, by Refusal.
using RejectedFrames = std::array<std::uint64_t, collectives::kRefusals>;

/// Labels are bounded: jobs (64), states, kinds, reasons; ranks only where a job has no more than
/// kMostLabelledRanks.
inline constexpr int kMostLabelledRanks = 64;

/// A call counts once, whatever the number of its ranks. Of the ranks' own counters the largest is
/// shown, because the ranks of a group count the same.
[[nodiscard]] std::string metrics_text(const Service& service, const EventLog& event_log,
                                       const RejectedFrames& rejected, const About& about,
                                       Instant now, WallTime wall);

}  // namespace lockstep::coordinator
