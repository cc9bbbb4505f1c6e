// The metrics of the coordinator in Prometheus text format 0.0.4.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <lockstep/coordinator/documents/event_log.h>
#include <lockstep/coordinator/server/connection.h>

namespace lockstep::coordinator {

/// Numbers of refused frames, by Refusal.
using RejectedFrames = std::array<std::uint64_t, collectives::kRefusals>;

/// The number of labels is bounded: they are jobs (64), states, kinds and reasons, and ranks only
/// in jobs of at most kMostLabelledRanks.
inline constexpr int kMostLabelledRanks = 64;

/// A call counts once, whatever the number of its ranks. Of each counter that ranks keep, the
/// largest value is shown, because the ranks of a group count the same calls.
[[nodiscard]] std::string metrics_text(const Service& service, const EventLog& event_log,
                                       const RejectedFrames& rejected, const About& about,
                                       Instant now, WallTime wall);

}  // namespace lockstep::coordinator
