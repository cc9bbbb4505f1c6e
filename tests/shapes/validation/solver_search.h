// The least point of a box that lies in no class, found by the solver: for cases in which the
// search of size_classes.h is out of steps. For programs that link the solver.
#pragma once

#include <lockstep/shapes/size_classes.h>

namespace lockstep::shapes {

/// Empty if this build has no solver (solver.h). `steps`: the limit of each question, in the
/// solver's own unit; past it the point is not known.
[[nodiscard]] PointSolver point_solver(unsigned steps = 2'000'000);

}  // namespace lockstep::shapes
