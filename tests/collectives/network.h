// Drives one operation on every rank of a virtual network to its end.
#pragma once

#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/simulated.h>

namespace lockstep::collectives {

/// Starts rounds[r] on rank r, for all r, and steps until all have ended.
template <class Rounds>
void run_all(VirtualNetwork& network, Rounds& rounds) {
  for (std::size_t r = 0; r < rounds.size(); ++r)
    network.communicator(Rank{static_cast<std::int32_t>(r)}).start(rounds[r]);
  while (network.step()) {
  }
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    auto done = network.communicator(Rank{static_cast<std::int32_t>(r)}).poll();
    ASSERT_TRUE(done.has_value()) << done.error().text();
    ASSERT_TRUE(*done) << "rank " << r << " has not ended";
  }
}

}  // namespace lockstep::collectives
