#include <algorithm>
#include <array>

#include <lockstep/worker/agree/exchange/consistency.h>

namespace lockstep::worker {
namespace {

constexpr std::array<std::string_view, 4> kNames{"same_graph", "same_collectives", "shared_sizes",
                                                 "local"};

}  // namespace

std::string_view consistency_name(Consistency consistency) {
  return kNames[static_cast<std::size_t>(consistency) % kNames.size()];
}

std::optional<Consistency> consistency_of(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Consistency>(found - kNames.begin());
}

}  // namespace lockstep::worker
