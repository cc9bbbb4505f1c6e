// A solver of integer constraints: SMT-LIB 2 text in, an answer out. It is Z3 (solver_z3.cpp), or
// no solver in a build without Z3 (solver_none.cpp). For validation, for proofs of the rules and
// for solver_search.h: nothing that ranks compare may depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep::shapes {

/// A solver's answer about a set of constraints.
struct SolverAnswer {
  enum class Outcome : std::uint8_t { Unsatisfiable, Satisfiable, Unknown };
  Outcome outcome = Outcome::Unknown;
  /// Satisfiable: the values of the declared constants that fit in int64.
  std::map<std::string, std::int64_t> model;
  /// Unknown: the solver's reason, or the text that this build has no solver.
  std::string reason;
};

/// Whether solve() can answer anything but Unknown.
[[nodiscard]] bool solver_is_available();

/// Asks about declarations and assertions in SMT-LIB 2. A pure function of the arguments and of the
/// solver's version: one thread, fixed seeds, a fresh state, and a limit that counts the solver's
/// own steps, never time or memory. Past the limit, and for text that it cannot read: Unknown.
[[nodiscard]] SolverAnswer solve(const std::string& text, unsigned steps);

}  // namespace lockstep::shapes
