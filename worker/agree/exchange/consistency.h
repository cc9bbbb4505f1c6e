// What the ranks of a group must agree on in the calls of a frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::worker {

enum class Consistency : std::uint8_t {
  SameGraph,        // all ranks run the same graph
  SameCollectives,  // graphs may differ, the ordered list of collectives may not
  SharedSizes,      // only the state of sizes is shared
  Local,            // nothing: each rank decides for itself; the frame has no collectives
};

/// "same_graph", as scenarios and records spell it.
[[nodiscard]] std::string_view consistency_name(Consistency consistency);
/// nullopt: no such name.
[[nodiscard]] std::optional<Consistency> consistency_of(std::string_view name);

}  // namespace lockstep::worker
