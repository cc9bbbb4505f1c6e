// Lines of several ranks in this process, as if on several hosts.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/collectives/lines/lines.h>

namespace lockstep::lines {

using Ranks = std::vector<std::unique_ptr<Lines>>;

/// So many ranks on each host, one after the other.
[[nodiscard]] Ranks open_hosts(int hosts, int on_each = 1);

/// An all_reduce of so many elements on the group of these members and this key.
[[nodiscard]] Result<std::uint64_t> issue(Lines& lines, std::int64_t elements, std::uint64_t key,
                                          const std::vector<Rank>& members);

}  // namespace lockstep::lines
