// Lines of several ranks in this process, as if on several hosts.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/collectives/lines/lines.h>

namespace lockstep::lines {

using Ranks = std::vector<std::unique_ptr<Lines>>;

/// So many ranks on each host, one after the other.
[[nodiscard]] Ranks open_hosts(int hosts, int on_each = 1);

}  // namespace lockstep::lines
