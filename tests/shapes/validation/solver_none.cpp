#include "solver.h"

namespace lockstep::shapes {

bool solver_is_available() { return false; }

SolverAnswer solve(const std::string& /*text*/, unsigned /*steps*/) {
  return {SolverAnswer::Outcome::Unknown, {}, "built without a solver (LOCKSTEP_WITH_Z3)"};
}

}  // namespace lockstep::shapes
