#include <z3++.h>

#include <lockstep/shapes/validation/solver.h>

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
  using Verdict = SolverAnswer::Verdict;
  try {
    z3::context context;
    // The plain core: tactics that it could choose otherwise give up by the clock.
    z3::solver solver(context, z3::solver::simple());
    z3::params params(context);
    params.set("rlimit", steps);
    params.set("random_seed", 0u);
    solver.set(params);
    solver.from_string(text.c_str());
    switch (solver.check()) {
      case z3::unsat:
        return {Verdict::Unsatisfiable, {}, {}};
      case z3::sat:
        return {Verdict::Satisfiable, values_of(solver.get_model()), {}};
      case z3::unknown:
        break;
    }
    return {Verdict::Unknown, {}, solver.reason_unknown()};
  } catch (const z3::exception& error) {
    return {Verdict::Unknown, {}, error.msg()};
  }
}

}  // namespace lockstep::shapes
