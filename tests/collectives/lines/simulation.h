// Random programs on random groups, whose ranks take turns in any order: each step of the issuer (a
// post, a comparison) and each of the transport is a turn of its own, and so is each step of a note
// from one host to another.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::tests {

struct RunOutcome {
  std::string wrong;       // what must not happen, in words; empty: nothing
  bool all_ended = false;  // every rank has come to the end of its program
  bool refused = false;    // a rank has refused
  bool blocked = false;    // ranks were named that cannot go on
};

/// One run, on `hosts` hosts at most. `faulty`: one rank departs from the program: another size,
/// dtype, reduction, root, split or order, an operation too few or too many, or it ends early.
[[nodiscard]] RunOutcome simulate(std::uint64_t seed, bool faulty, int hosts = 1);

}  // namespace lockstep::tests
