// What must hold of every run: the invariants of the design, by what the ranks saw.
#pragma once

#include <optional>
#include <string>

#include "program.h"
#include "run.h"

namespace lockstep::fuzz {

struct Violation {
  std::string invariant;  // "I1", …, "oracle", "replay"
  std::string text;       // what was seen
};

/// I1, I3, I5 and I6 on one run.
[[nodiscard]] std::optional<Violation> check(const Program& program, const Run& run);
/// I2: two runs of one program that differ in the timing of messages only. Requires that nothing
/// ends the job early.
[[nodiscard]] std::optional<Violation> check_same(const Run& a, const Run& b);
/// What every call comes to by a second reading of the rules. Requires a program without faults
/// whose functions neither branch nor ask.
[[nodiscard]] std::optional<Violation> check_oracle(const Program& program, const Run& run);

/// Frames that start from a profile which the same program left compile once at most. Requires a
/// program that nothing ends early.
[[nodiscard]] std::optional<Violation> check_restart(const Program& program, const Run& run);

/// How one program did on its own.
struct Verdict {
  std::optional<Violation> violation;
  Run run;              // the first one
  bool oracle = false;  // it was held against the oracle
};
/// Runs a program as often as it takes to check all of that. A pure function.
[[nodiscard]] Verdict examine(const Program& program, std::uint64_t seed);

}  // namespace lockstep::fuzz
