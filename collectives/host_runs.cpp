#include <algorithm>

#include <lockstep/collectives/host_runs.h>

namespace lockstep::collectives {

HostRuns::HostRuns(std::span<const std::uint64_t> hosts) {
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (r == 0 || hosts[r] != hosts[r - 1]) firsts_.push_back(static_cast<std::int32_t>(r));
  if (firsts_.size() <= 1 || firsts_.size() == hosts.size())
    firsts_.clear();
  else
    firsts_.push_back(static_cast<std::int32_t>(hosts.size()));
}

int HostRuns::run_of(Rank rank) const {
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), rank.value);
  return static_cast<int>(after - firsts_.begin()) - 1;
}

}  // namespace lockstep::collectives
