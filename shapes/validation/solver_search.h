// The least point of a box in none of some classes, by the solver: where the search of
// size_classes.h takes too many steps. For programs that link the solver.
#pragma once

#include <lockstep/shapes/size_classes.h>

namespace lockstep::shapes {

/// Empty where there is no solver in this build (solver.h). `steps`: for each question, in the
/// solver's own unit; what takes more is not known.
[[nodiscard]] PointSolver point_solver(unsigned steps = 2'000'000);

}  // namespace lockstep::shapes
