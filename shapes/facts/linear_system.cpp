#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/shapes/facts/linear_system.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;
using Part = LinearSystem::Part;
using Row = LinearSystem::Row;
using Variable = LinearSystem::Variable;

constexpr Wide kMostInRow = Wide{1} << 62;  // largest number in a row
constexpr Wide kNone = Wide{1} << 100;      // "no bound" from above; -kNone: from below
constexpr std::int64_t kMaxSums = 96;       // maximum number of sums during an elimination
constexpr Wide kMaxValuesTried = 4096;      // maximum number of values of one variable
constexpr int kMaxRounds = 4;               // maximum rounds of narrowing bounds by bounds

bool fits(Wide v) { return magnitude(v) < kMostInRow; }

Wide floor_divide(Wide a, Wide b) {
  Wide out = 0;
  static_cast<void>(floor_divide_wide(a, b, out));
  return out;
}
Wide ceil_divide(Wide a, Wide b) { return -floor_divide(-a, b); }

Wide content(const std::vector<Part>& parts) {
  Wide out = 0;
  for (const Part& part : parts)
    for (Wide b = magnitude(part.coefficient); b != 0;) out = std::exchange(b, out % b);
  return out;
}

Wide coefficient_of(const std::vector<Part>& parts, Variable variable) {
  for (const Part& part : parts)
    if (part.variable == variable) return part.coefficient;
  return 0;
}

}  // namespace

std::optional<Row> LinearSystem::sum(const Row& a, Wide k, const Row& b) {
  if (!fits(k)) return std::nullopt;
  Row out;
  out.parts.reserve(a.parts.size() + b.parts.size());
  out.constant = a.constant + k * b.constant;
  bool all_fit = fits(out.constant);
  auto mine = a.parts.begin();
  for (const Part& part : b.parts) {
    while (mine != a.parts.end() && mine->variable < part.variable) out.parts.push_back(*mine++);
    Wide coefficient = k * part.coefficient;
    if (mine != a.parts.end() && mine->variable == part.variable)
      coefficient += mine++->coefficient;
    all_fit = all_fit && fits(coefficient);
    if (coefficient != 0) out.parts.push_back({part.variable, coefficient});
  }
  out.parts.insert(out.parts.end(), mine, a.parts.end());
  return all_fit ? std::optional(std::move(out)) : std::nullopt;
}

void LinearSystem::require(Relation relation, const Row& row) {
  const Wide c = row.constant;
  if (row.parts.empty()) {
    const bool holds = relation == Relation::Equal      ? c == 0
                       : relation == Relation::NotEqual ? c != 0
                                                        : c >= 0;
    contradictory_ = contradictory_ || !holds;
    return;
  }
  // The relation of scale*x + c to zero is that of x to -c/scale.
  const Wide g = content(row.parts), scale = row.parts[0].coefficient < 0 ? -g : g;
  std::vector<Part> parts = row.parts;
  for (Part& part : parts) part.coefficient /= scale;
  const bool integral = c % scale == 0;
  if (!integral && relation != Relation::NonNegative) {
    contradictory_ = contradictory_ || relation == Relation::Equal;
    return;
  }
  Known& known = sums_.try_emplace(std::move(parts), Known{-kNone, kNone, {}}).first->second;
  if (relation == Relation::NotEqual) {
    known.excluded.insert(-c / scale);
  } else {
    if (relation == Relation::Equal || scale > 0)
      known.lower = std::max(known.lower, ceil_divide(-c, scale));
    if (relation == Relation::Equal || scale < 0)
      known.upper = std::min(known.upper, floor_divide(-c, scale));
  }
  while (known.lower <= known.upper && known.excluded.contains(known.lower)) ++known.lower;
  while (known.lower <= known.upper && known.excluded.contains(known.upper)) --known.upper;
  contradictory_ = contradictory_ || known.lower > known.upper;
}

bool LinearSystem::is_contradictory(Trying trying, int& fuel) const {
  return LinearSystem(*this).refuted(trying, fuel);
}

bool LinearSystem::refuted(Trying trying, int& fuel) {
  solve_equalities(fuel);
  narrow_variables(fuel);
  if (contradictory_) return true;
  if (fuel <= 0 || sums_.empty()) return false;
  return eliminated_to_nothing(fuel) || (trying == Trying::Yes && refuted_by_trying(fuel));
}

void LinearSystem::solve_equalities(int& fuel) {
  while (!contradictory_ && fuel > 0) {
    const auto found = std::find_if(sums_.begin(), sums_.end(), [](const auto& sum) {
      return sum.second.lower == sum.second.upper;
    });
    if (found == sums_.end()) return;
    const std::vector<Part> parts = found->first;
    const Wide value = found->second.lower;
    sums_.erase(found);
    solve(parts, value, fuel);
  }
}

// Solves the equality "sum of `parts` == value". Requires that the coefficients have no common
// factor. A variable with the coefficient ±1 is replaced in terms of the others. If there is no
// such variable, the variable x with the least coefficient c is replaced by a new variable: t = x +
// the sum of floor(coefficient of y / c) * y over the other variables y. That leaves coefficients
// below c, so the procedure ends, as Euclid's algorithm does.
void LinearSystem::solve(std::vector<Part> parts, Wide value, int& fuel) {
  const auto by_magnitude = [](const Part& a, const Part& b) {
    return magnitude(a.coefficient) < magnitude(b.coefficient);
  };
  for (;;) {
    const auto [x, c] = *std::min_element(parts.begin(), parts.end(), by_magnitude);
    const bool is_given = magnitude(c) == 1;
    Row by{{}, is_given ? c * value : 0};
    std::vector<Part> left;
    for (const auto& [variable, k] : parts) {
      const Wide q = variable != x ? floor_divide(k, c) : is_given ? 0 : -1;
      const Wide rest = variable == x ? c : k - q * c;
      if (q != 0) by.parts.push_back({variable, -q});
      if (rest != 0) left.push_back({variable, rest});
    }
    substitute(x, by, fuel);
    if (is_given) return;
    parts = std::move(left);
  }
}

void LinearSystem::substitute(Variable variable, const Row& by, int& fuel) {
  std::vector<Sums::node_type> with;
  for (auto it = sums_.begin(); it != sums_.end();) {
    const auto here = it++;
    if (coefficient_of(here->first, variable) != 0) with.push_back(sums_.extract(here));
  }
  for (auto& node : with) {
    fuel -= static_cast<int>(1 + node.key().size() + by.parts.size());
    const Wide c = coefficient_of(node.key(), variable);
    Row rest{node.key(), 0};
    std::erase_if(rest.parts, [&](const Part& part) { return part.variable == variable; });
    const auto row = sum(rest, c, by);
    if (!row) continue;
    const Known& known = node.mapped();
    const auto require_from = [&](Relation relation, Wide sign, Wide value) {
      const auto moved = sum({{}, -sign * value}, sign, *row);
      if (moved) require(relation, *moved);
    };
    if (known.lower == known.upper) {
      require_from(Relation::Equal, 1, known.lower);
      continue;
    }
    if (known.lower != -kNone) require_from(Relation::NonNegative, 1, known.lower);
    if (known.upper != kNone) require_from(Relation::NonNegative, -1, known.upper);
    for (const Wide value : known.excluded) require_from(Relation::NotEqual, 1, value);
  }
}

// Eliminates all variables from the inequalities. True: a false row is left, so not even fractions
// satisfy the inequalities.
bool LinearSystem::eliminated_to_nothing(int& fuel) const {
  LinearSystem left = *this;
  while (!left.contradictory_ && fuel > 0) {
    const auto next = left.cheapest(std::nullopt);
    if (!next) return false;
    left.eliminate(*next, fuel);
    left.solve_equalities(fuel);
  }
  return left.contradictory_;
}

// The variable whose elimination makes the fewest rows; nullopt: no variable is left, or there
// would be too many rows.
std::optional<Variable> LinearSystem::cheapest(std::optional<Variable> kept) const {
  std::map<Variable, std::pair<std::int64_t, std::int64_t>> bounds;  // from below, from above
  for (const auto& [parts, known] : sums_) {
    for (const Part& part : parts) {
      auto& [below, above] = bounds[part.variable];
      const bool positive = part.coefficient > 0;
      if (known.lower != -kNone) ++(positive ? below : above);
      if (known.upper != kNone) ++(positive ? above : below);
    }
  }
  std::optional<Variable> out;
  std::int64_t least = 0;
  for (const auto& [variable, count] : bounds) {
    if (variable == kept) continue;
    const std::int64_t made = count.first * count.second - count.first - count.second;
    if (!out || made < least) std::tie(out, least) = std::pair(std::optional(variable), made);
  }
  const bool too_many = static_cast<std::int64_t>(sums_.size()) + least > kMaxSums;
  return too_many ? std::nullopt : out;
}

// Fourier-Motzkin elimination: combines each lower bound of the variable with each upper bound.
void LinearSystem::eliminate(Variable variable, int& fuel) {
  std::vector<Row> below, above;
  for (auto it = sums_.begin(); it != sums_.end();) {
    const auto here = it++;
    const Wide c = coefficient_of(here->first, variable);
    if (c == 0) continue;
    const auto node = sums_.extract(here);
    const Row row{node.key(), 0};
    if (node.mapped().lower != -kNone)
      if (const auto bound = sum({{}, -node.mapped().lower}, 1, row))
        (c > 0 ? below : above).push_back(*bound);
    if (node.mapped().upper != kNone)
      if (const auto bound = sum({{}, node.mapped().upper}, -1, row))
        (c > 0 ? above : below).push_back(*bound);
  }
  for (const Row& b : below) {
    for (const Row& a : above) {
      fuel -= static_cast<int>(1 + a.parts.size() + b.parts.size());
      if (fuel <= 0) return;
      const Wide of_b = coefficient_of(b.parts, variable),
                 of_a = -coefficient_of(a.parts, variable);
      const auto scaled = sum({}, of_a, b);
      const auto both = scaled ? sum(*scaled, of_b, a) : std::nullopt;
      if (both) require(Relation::NonNegative, *both);
    }
  }
}

Range LinearSystem::range(Variable variable, int& fuel) const {
  LinearSystem left = *this;
  while (!left.contradictory_ && fuel > 0) {
    const auto next = left.cheapest(variable);
    if (!next) break;
    left.eliminate(*next, fuel);
  }
  if (left.contradictory_) return {1, 0};
  Range out;
  const auto found = left.sums_.find({Part{variable, 1}});
  if (found == left.sums_.end()) return out;
  if (fits_int64(found->second.lower)) out.lower = static_cast<std::int64_t>(found->second.lower);
  if (fits_int64(found->second.upper)) out.upper = static_cast<std::int64_t>(found->second.upper);
  return out;
}

// The least value of the part; -kNone: it has no bound.
Wide LinearSystem::least(const Part& part) const {
  const auto found = sums_.find({Part{part.variable, 1}});
  if (found == sums_.end()) return -kNone;
  const Wide end = part.coefficient > 0 ? found->second.lower : found->second.upper;
  if (magnitude(end) == kNone || !fits(part.coefficient * end)) return -kNone;
  return part.coefficient * end;
}

// Adds to `out` the bounds of `of.variable` that follow from `known`, the bounds of the sum, and
// from the bounds of the other parts. Each is a row that must be >= 0.
void LinearSystem::add_bounds(const std::vector<Part>& parts, const Known& known, const Part& of,
                              std::vector<Row>& out) const {
  Wide lower = 0, upper = 0;  // bounds of the other parts
  for (const Part& part : parts) {
    if (part.variable == of.variable) continue;
    const Wide low = least(part), high = -least({part.variable, -part.coefficient});
    lower = low == -kNone || lower == -kNone ? -kNone : lower + low;
    upper = high == kNone || upper == kNone ? kNone : upper + high;
  }
  const Wide c = of.coefficient;
  if (known.upper != kNone && lower != -kNone && fits(known.upper - lower))
    out.push_back({{{of.variable, -c}}, known.upper - lower});
  if (known.lower != -kNone && upper != kNone && fits(upper - known.lower))
    out.push_back({{{of.variable, c}}, upper - known.lower});
}

void LinearSystem::narrow_variables(int& fuel) {
  for (int round = 0; round < kMaxRounds && !contradictory_ && fuel > 0; ++round) {
    std::vector<Row> found;
    for (const auto& [parts, known] : sums_) {
      for (const Part& part : parts) {
        if (parts.size() < 2) break;
        fuel -= static_cast<int>(parts.size());
        add_bounds(parts, known, part, found);
      }
    }
    bool narrower = false;
    for (const Row& row : found) {
      const Part& bound = row.parts[0];
      narrower = narrower || least(bound) == -kNone || least(bound) + row.constant < 0;
      require(Relation::NonNegative, row);
    }
    if (!narrower) return;
    solve_equalities(fuel);
  }
}

// The variable with the fewest values. If some variables have two bounds of their own, only these
// are compared; otherwise all are, by range().
std::optional<LinearSystem::Candidate> LinearSystem::narrowest(int& fuel) const {
  std::optional<Candidate> out;
  std::set<Variable> others;
  const auto take = [&](Variable variable, Wide lower, Wide upper) {
    if (lower == -kNone || upper == kNone || upper - lower >= kMaxValuesTried) return;
    if (!out || upper - lower < out->upper - out->lower) out = {variable, lower, upper};
  };
  for (const auto& [parts, known] : sums_) {
    for (const Part& part : parts) others.insert(part.variable);
    if (parts.size() == 1) take(parts[0].variable, known.lower, known.upper);
  }
  if (out) return out;
  for (const Variable variable : others) {
    const Range range = this->range(variable, fuel);
    if (range.lower != Range::kMin && range.upper != Range::kMax)
      take(variable, range.lower, range.upper);
  }
  return out;
}

bool LinearSystem::refuted_by_trying(int& fuel) const {
  const auto candidate = narrowest(fuel);
  if (!candidate) return false;
  for (Wide value = candidate->lower; value <= candidate->upper; ++value) {
    LinearSystem tried = *this;
    tried.substitute(candidate->variable, {{}, value}, fuel);
    if (fuel <= 0 || !tried.refuted(Trying::Yes, fuel)) return false;
  }
  return true;
}

}  // namespace lockstep::shapes
