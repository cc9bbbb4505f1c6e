// A solver of integer constraints, behind text: SMT-LIB 2 in, an answer out. Z3 where it is built
// in (solver_z3.cpp), none elsewhere (solver_none.cpp). For validation and the proofs of our rules
// only: no decision may depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep::shapes {

/// What a solver says of a set of constraints.
struct SolverAnswer {
  enum class Verdict : std::uint8_t { Unsatisfiable, Satisfiable, Unknown };
  Verdict verdict = Verdict::Unknown;
  /// Satisfiable: the values of the declared constants, as far as they fit in int64.
  std::map<std::string, std::int64_t> model;
  /// Unknown: the solver's reason, or that there is none in this build.
  std::string reason;
};

/// Whether solve() can answer anything but Unknown.
[[nodiscard]] bool solver_is_available();

/// Asks about declarations and assertions in SMT-LIB 2. A pure function of the arguments and of the
/// solver's version: one thread, fixed seeds, a fresh state, and a limit that counts the solver's
/// own steps, never time or memory. Past the limit, and for text that it cannot read: Unknown.
[[nodiscard]] SolverAnswer solve(const std::string& text, unsigned steps);

}  // namespace lockstep::shapes
