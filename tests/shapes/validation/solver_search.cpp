#include <fmt/format.h>

#include "smt_query.h"
#include "solver.h"
#include "solver_search.h"

namespace lockstep::shapes {
namespace {

using Outcome = SolverAnswer::Outcome;

std::string question(const SizeBox& box, const std::vector<std::vector<Guard>>& classes) {
  SmtQuery query;
  for (const SizeBox::Side& side : box.sides) query.declare(side.symbol, side.range);
  for (const Predicate& predicate : box.promised) query.require(predicate, true);
  for (const std::vector<Guard>& guards : classes) {
    std::vector<Predicate> predicates;
    for (const Guard& guard : guards) predicates.push_back(guard.predicate);
    query.require_not_all(predicates);
  }
  return query.text();
}

SizePoint point_of(const SizeBox& box, const SolverAnswer& answer) {
  SizePoint out;
  for (const SizeBox::Side& side : box.sides) {
    const auto value = answer.model.find(side.symbol.name());
    out.push_back(value == answer.model.end() ? side.range.lower : value->second);
  }
  return out;
}

std::string bound(const SizeBox::Side& side, const char* relation, std::int64_t value) {
  const std::string number = value < 0
                                 ? fmt::format("(- {})", 0 - static_cast<std::uint64_t>(value))
                                 : std::to_string(value);
  return fmt::format("(assert ({} {} {}))\n", relation, side.symbol.name(), number);
}

/// Minimises one side after the other, by bisection.
SolvedPoint least_point(const SizeBox& box, const std::vector<std::vector<Guard>>& classes,
                        unsigned steps) {
  std::string asked = question(box, classes);
  SolverAnswer answer = solve(asked, steps);
  if (answer.outcome != Outcome::Satisfiable) return {{}, answer.outcome == Outcome::Unsatisfiable};
  SizePoint point = point_of(box, answer);
  for (std::size_t i = 0; i < point.size(); ++i) {
    std::int64_t low = box.sides[i].range.lower;
    while (low < point[i]) {
      const std::int64_t middle = low + (point[i] - low) / 2;
      answer = solve(asked + bound(box.sides[i], "<=", middle), steps);
      if (answer.outcome == Outcome::Unknown) return {};
      if (answer.outcome == Outcome::Satisfiable)
        point = point_of(box, answer);
      else
        low = middle + 1;
    }
    asked += bound(box.sides[i], "=", point[i]);
  }
  return {point, false};
}

}  // namespace

PointSolver point_solver(unsigned steps) {
  if (!solver_is_available()) return {};
  return [steps](const SizeBox& box, const std::vector<std::vector<Guard>>& classes) {
    return least_point(box, classes, steps);
  };
}

}  // namespace lockstep::shapes
