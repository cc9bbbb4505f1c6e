// The tree by which ranks get the list of all ranks. Pure. Used by rendezvous_members.cpp only.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

/// A tree over hosts in their order of arrival, with rank 0's host at the root. The first rank of a
/// host is a child of the first rank of another host, which has at most kHosts such children. The
/// other ranks of a host are children of the host's first rank. One thread.
class RendezvousTree {
 public:
  static constexpr std::size_t kHosts = 4;

  /// `host` is that of rank 0.
  explicit RendezvousTree(std::uint64_t host) : hosts_{host}, firsts_{{host, Rank{0}}} {}

  /// Adds a rank that has arrived; returns the rank with which it is to wait.
  [[nodiscard]] Rank parent(Rank rank, std::uint64_t host);
  /// Removes a rank that is gone: no other rank is sent to it any more.
  void left(Rank rank);

 private:
  std::vector<std::uint64_t> hosts_;      // in order of arrival
  std::map<std::uint64_t, Rank> firsts_;  // the first rank of each host, unless it has left
};

}  // namespace lockstep::collectives
