// What the coordinator knows, as Prometheus reads it (text format 0.0.4).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <lockstep/coordinator/documents/chronicle.h>
#include <lockstep/coordinator/server/connection.h>

namespace lockstep::coordinator {

/// Frames of connections that were refused, by Refusal.
using RejectedFrames = std::array<std::uint64_t, 9>;

/// Labels are bounded: jobs (64), states, kinds, reasons; ranks only where a job has no more than
/// kMostLabelledRanks.
inline constexpr int kMostLabelledRanks = 64;

/// A call counts once, whatever the number of its ranks; what ranks count of themselves is that of
/// the rank that has counted most, as the ranks of a group count the same.
[[nodiscard]] std::string metrics_text(const Service& service, const Chronicle& chronicle,
                                       const RejectedFrames& rejected, const About& about,
                                       Instant now, WallTime wall);

}  // namespace lockstep::coordinator
