#include <algorithm>

#include <lockstep/collectives/tcp/rendezvous_tree.h>

namespace lockstep::collectives {

Rank RendezvousTree::parent(Rank rank, std::uint64_t host) {
  const auto [first, is_first] = firsts_.try_emplace(host, rank);
  if (!is_first) return first->second;
  auto place = std::find(hosts_.begin(), hosts_.end(), host);
  if (place == hosts_.end()) place = hosts_.insert(place, host);
  const auto above = static_cast<std::size_t>(place - hosts_.begin() - 1) / kHosts;
  const auto found = firsts_.find(hosts_[above]);
  return found == firsts_.end() ? Rank{0} : found->second;
}

void RendezvousTree::left(Rank rank) {
  std::erase_if(firsts_, [rank](const auto& one) { return one.second == rank; });
}

}  // namespace lockstep::collectives
