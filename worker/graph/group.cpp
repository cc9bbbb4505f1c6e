#include <fmt/format.h>

#include <lockstep/worker/graph/group.h>

namespace lockstep::worker {

std::string Group::label() const { return fmt::format("{} [{}]", name, members.text()); }

}  // namespace lockstep::worker
