// Ranks that run on their own in a counterfactual: one for each class of equal ranks, or every rank
// where ranks draw for themselves.
#pragma once

#include <vector>

#include <lockstep/worker/simulator/partition.h>

namespace lockstep::worker::simulator {

/// A rank that stands for all that are equal to it, and by what class it is absent.
struct Member {
  const RankClass* of = nullptr;
  std::int32_t rank = 0;
};

/// The classes outlive it. `apart`: ranks draw for themselves.
[[nodiscard]] std::vector<Member> members_of(const std::vector<RankClass>& classes, bool apart);

}  // namespace lockstep::worker::simulator
