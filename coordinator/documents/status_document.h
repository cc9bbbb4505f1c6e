// What a coordinator knows, as one JSON document ("lockstep.status/1"): for `lockstep status`,
// the status page, and machines.
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

/// Full: with the texts of graphs, a line for each value. Brief: without them, on one line, for
/// those who follow what changes.
enum class Detail : std::uint8_t { Full, Brief };

/// Ranks are in it as ranges; ranks that do the same stand together, so its length goes with what
/// they do, not with how many they are.
[[nodiscard]] std::string status_document(const Service& service, const About& about, Instant now,
                                          Detail detail = Detail::Full);

}  // namespace lockstep::coordinator
