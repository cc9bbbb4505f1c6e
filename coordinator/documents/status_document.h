// All that a coordinator knows, as one JSON document ("lockstep.status/1"): for `lockstep status`,
// the status page and other programs.
#pragma once

#include <string>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// Facts about the coordinator itself.
struct About {
  std::string version;
  std::string listening;
  std::int32_t pid = 0;
  Instant began{0};
};

/// Full: with the texts of graphs, and a line for each value. Brief: without these texts, on one
/// line, for updates.
enum class Detail : std::uint8_t { Full, Brief };

/// Ranks appear as ranges, grouped by state, so the length grows with the number of different
/// states, not of ranks.
[[nodiscard]] std::string status_document(const Service& service, const About& about, Instant now,
                                          Detail detail = Detail::Full);

}  // namespace lockstep::coordinator
