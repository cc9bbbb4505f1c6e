#include <z3++.h>

#include "solver.h"

namespace lockstep::shapes {
namespace {

std::map<std::string, std::int64_t> values_of(const z3::model& model) {
  std::map<std::string, std::int64_t> out;
  for (unsigned i = 0; i < model.num_consts(); ++i) {
    const z3::func_decl constant = model.get_const_decl(i);
    std::int64_t value = 0;
    if (model.get_const_interp(constant).is_numeral_i64(value)) out[constant.name().str()] = value;
  }
  return out;
}

}  // namespace

bool solver_is_available() { return true; }

SolverAnswer solve(const std::string& text, unsigned steps) {
  using Outcome = SolverAnswer::Outcome;
  try {
    z3::context context;
    // The plain core solver: other tactics of Z3 may give up by time.
    z3::solver solver(context, z3::solver::simple());
    z3::params params(context);
    params.set("rlimit", steps);
    params.set("random_seed", 0u);
    solver.set(params);
    solver.from_string(text.c_str());
    switch (solver.check()) {
      case z3::unsat:
        return {Outcome::Unsatisfiable, {}, {}};
      case z3::sat:
        return {Outcome::Satisfiable, values_of(solver.get_model()), {}};
      case z3::unknown:
        break;
    }
    return {Outcome::Unknown, {}, solver.reason_unknown()};
  } catch (const z3::exception& error) {
    return {Outcome::Unknown, {}, error.msg()};
  }
}

}  // namespace lockstep::shapes
