#include <algorithm>

#include <lockstep/shapes/box_cover.h>

namespace lockstep::shapes {
namespace {

constexpr std::uint64_t kSubstitution = 4;  // steps that one substitution counts as
constexpr int kRounds = 3;                  // rounds of narrowing; more would find little

// Adds the conditions under which the expression has a value: no divisor in it is zero.
void add_divisors(const Expr& e, std::vector<Predicate>& out) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      const Expr::Atom& atom = *factor.atom;
      for (const Expr& operand : atom.operands) add_divisors(operand, out);
      if (atom.op == Expr::Op::FloorDiv || atom.op == Expr::Op::Mod)
        out.push_back(not_equal(atom.operands[1], 0));
    }
  }
}

Wide width(const Range& range) { return Wide{range.upper} - range.lower + 1; }

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

BoxCover::BoxCover(SizeBox box, std::uint64_t steps) : box_(std::move(box)), steps_(steps) {
  for (std::uint32_t i = 0; i < box_.sides.size(); ++i) all_sides_.push_back(i);
  promised_ = literals(box_.promised);
}

void BoxCover::add(const std::vector<Guard>& guards) {
  std::vector<Predicate> predicates;
  for (const Guard& guard : guards) predicates.push_back(guard.predicate);
  classes_.push_back(literals(predicates));
}

BoxCover::Literal BoxCover::make(const Predicate& predicate, Literal as) {
  known_.try_emplace({predicate.expr.identity(), static_cast<int>(predicate.relation)}, as);
  predicates_.push_back(predicate);
  std::vector<std::uint32_t>& sides = sides_of_.emplace_back();
  for (const Symbol symbol : predicate.expr.symbols())
    for (std::uint32_t i = 0; i < box_.sides.size(); ++i)
      if (box_.sides[i].symbol == symbol) sides.push_back(i);
  linear_.push_back(linear_in(predicate.expr));
  return as;
}

std::vector<BoxCover::Linear> BoxCover::linear_in(const Expr& e) const {
  std::vector<Linear> out;
  for (const auto& term : e.terms()) {
    if (term.factors.size() != 1 || term.factors[0].power != 1) continue;
    const auto symbol = Expr::of_atom(term.factors[0].atom).as_symbol();
    if (!symbol) continue;
    Linear linear{0, term.coefficient, e - term.coefficient * Expr::symbol(*symbol)};
    while (box_.sides[linear.side].symbol != *symbol) ++linear.side;
    if (!contains(linear.rest.symbols(), *symbol)) out.push_back(std::move(linear));
  }
  return out;
}

// Equal predicates get the same literal, and so do their negations. `predicates_` keeps the
// expressions alive, so their addresses stay unique.
BoxCover::Literal BoxCover::intern(const Predicate& predicate) {
  const auto found = known_.find({predicate.expr.identity(), static_cast<int>(predicate.relation)});
  if (found != known_.end()) return found->second;
  const auto next = static_cast<Literal>(predicates_.size());
  make(predicate, next);
  make(predicate.negated(), next + 1);
  return next;
}

// The literals of the predicates, and of the conditions that no divisor in them is zero: a
// predicate with a zero divisor is not satisfied, whatever the value of its normal form.
BoxCover::Term BoxCover::literals(const std::vector<Predicate>& predicates) {
  Term out;
  for (const Predicate& predicate : predicates) {
    std::vector<Predicate> all;
    add_divisors(predicate.expr, all);
    all.push_back(predicate);
    for (const Predicate& one : all)
      if (const Literal literal = intern(one); !contains(out, literal)) out.push_back(literal);
  }
  return out;
}

void BoxCover::start() {
  spent_ = false;
  now_.clear();
  for (const SizeBox::Side& side : box_.sides) now_.push_back(side.range);
}

bool BoxCover::spend() {
  if (steps_ == 0) {
    spent_ = true;
    return false;
  }
  --steps_;
  return true;
}

Range BoxCover::range(const Expr& e) const {
  return range_of(e, [this](Symbol symbol) {
    for (std::size_t i = 0; i < now_.size(); ++i)
      if (box_.sides[i].symbol == symbol) return now_[i];
    return Range{};
  });
}

BoxCover::Truth BoxCover::truth(Literal literal) {
  if (!spend()) return Truth::Open;
  const Predicate& predicate = predicates_[literal];
  if (const auto constant = predicate.constant()) return *constant ? Truth::True : Truth::False;
  const Range range = this->range(predicate.expr);
  switch (predicate.relation) {
    case Relation::NonNegative:
      return range.lower >= 0 ? Truth::True : range.upper < 0 ? Truth::False : Truth::Open;
    case Relation::Equal:
      return !range.contains(0) ? Truth::False : Truth::Open;
    case Relation::NotEqual:
      return !range.contains(0) ? Truth::True : Truth::Open;
  }
  return Truth::Open;
}

/// Narrows each side to the values at which each predicate, taken alone, may be true. False: a side
/// has no such value.
bool BoxCover::narrow(const Term& term) {
  bool changed = true;
  for (int round = 0; round < kRounds && changed; ++round) {
    changed = false;
    for (const Literal literal : term)
      for (const Linear& linear : linear_[literal])
        if (spend() && !narrow(predicates_[literal].relation, linear, changed)) return false;
  }
  return true;
}

// Narrows the side of `linear`, given that coefficient * side + rest has the relation to zero.
bool BoxCover::narrow(Relation relation, const Linear& linear, bool& changed) {
  const Range rest = -range(linear.rest);
  Range& side = now_[linear.side];
  const Range before = side;
  const bool down = linear.coefficient < 0;
  const auto quotient = [&](std::int64_t bound, bool up) {
    Wide out = 0;
    static_cast<void>(floor_divide_wide(up ? -Wide{bound} : Wide{bound}, linear.coefficient, out));
    return up ? -out : out;
  };
  const auto raise = [&](Wide to) {
    side.lower =
        static_cast<std::int64_t>(std::clamp<Wide>(to, side.lower, Wide{before.upper} + 1));
  };
  const auto sink = [&](Wide to) {
    side.upper =
        static_cast<std::int64_t>(std::clamp<Wide>(to, Wide{before.lower} - 1, side.upper));
  };
  if (relation == Relation::NotEqual) {
    if (rest.lower != rest.upper) return true;
    const Wide value = quotient(rest.lower, false);
    if (value * linear.coefficient != rest.lower) return true;
    if (value == side.lower) raise(value + 1);
    if (value == side.upper) sink(value - 1);
  } else {
    // coefficient * side >= -rest, whose least value is rest.lower.
    if (rest.lower != Range::kMin)
      down ? sink(quotient(rest.lower, false)) : raise(quotient(rest.lower, true));
    if (relation == Relation::Equal && rest.upper != Range::kMax)
      down ? raise(quotient(rest.upper, true)) : sink(quotient(rest.upper, false));
  }
  changed = changed || !(side == before);
  return !side.empty();
}

/// The points that satisfy `promised` and `within` and lie in none of the first `classes` classes,
/// as disjoint conjunctions.
std::vector<BoxCover::Term> BoxCover::beyond(std::size_t classes, const Term& within) {
  std::vector<Term> rest;
  for (std::size_t i = 0; i < classes; ++i) {
    Term open;
    bool apart = false;
    for (const Literal literal : classes_[i]) {
      apart = apart || contains(within, literal ^ 1U);
      if (!contains(within, literal)) open.push_back(literal);
    }
    if (!apart) rest.push_back(std::move(open));
  }
  Term assumed = within;
  for (const Literal literal : promised_)
    if (!contains(assumed, literal)) assumed.push_back(literal);
  std::vector<Term> out;
  split(assumed, std::move(rest), out);
  return out;
}

// Splits on the predicate that most classes have: most likely the first question of the traced
// program.
void BoxCover::split(Term& assumed, std::vector<Term> classes, std::vector<Term>& out) {
  if (spent_) return;
  if (classes.empty()) return out.push_back(assumed);
  std::map<Literal, std::size_t> uses;
  for (const Term& term : classes) {
    if (term.empty()) return;
    for (const Literal literal : term) ++uses[literal / 2];
  }
  const auto most = std::ranges::max_element(
      uses, [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const Literal chosen : {2 * most->first, 2 * most->first + 1}) {
    const std::vector<Range> before = now_;
    assumed.push_back(chosen);
    if (truth(chosen) != Truth::False && narrow(assumed)) {
      std::vector<Term> left;
      for (const Term& term : classes) {
        if (contains(term, chosen ^ 1U)) continue;
        left.push_back(term);
        std::erase(left.back(), chosen);
      }
      split(assumed, std::move(left), out);
    }
    assumed.pop_back();
    now_ = before;
  }
}

// Drops the predicates of `term` that are true. False: one of its predicates is false.
bool BoxCover::drop_true(Term& term) {
  std::size_t kept = 0;
  for (const Literal literal : term) {
    const Truth known = truth(literal);
    if (known == Truth::False) return false;
    if (known == Truth::Open) term[kept++] = literal;
  }
  term.resize(kept);
  return true;
}

bool BoxCover::mentions(const Term& term, std::size_t side) const {
  return std::ranges::any_of(term, [&](Literal literal) {
    return contains(sides_of_[literal], static_cast<std::uint32_t>(side));
  });
}

/// Replaces the side by its only value in the predicates, so that parts with equal remaining
/// predicates are recognised as equal.
void BoxCover::fix(Term& term, std::size_t side) {
  for (Literal& literal : term) {
    if (!contains(sides_of_[literal], static_cast<std::uint32_t>(side))) continue;
    steps_ -= std::min(steps_, kSubstitution);
    literal = intern(predicates_[literal].substitute(box_.sides[side].symbol, now_[side].lower));
  }
}

BoxCover::Key BoxCover::key(const Term& term, const std::vector<std::uint32_t>& sides) const {
  Key out;
  for (const std::uint32_t side : sides)
    out.insert(out.end(), {static_cast<std::int64_t>(side), now_[side].lower, now_[side].upper});
  const auto literals = static_cast<std::ptrdiff_t>(out.size());
  out.insert(out.end(), term.begin(), term.end());
  std::sort(out.begin() + literals, out.end());
  return out;
}

SolvedPoint BoxCover::least() {
  start();
  if (std::ranges::any_of(now_, [](const Range& range) { return range.empty(); }))
    return {{}, true};
  std::optional<SizePoint> out;
  try {
    for (const Term& term : beyond(classes_.size(), {})) {
      auto found = least_in(term, 0);
      if (found && (!out || *found < *out)) out = std::move(found);
    }
  } catch (const OverflowError&) {
    spent_ = true;
  }
  if (spent_) return {};
  return {out, !out};
}

std::optional<SizePoint> BoxCover::least_in(Term term, std::size_t side) {
  const std::vector<Range> before = now_;
  std::optional<SizePoint> out;
  if (narrow(term) && drop_true(term) && !spent_) out = least_within(std::move(term), side);
  now_ = before;
  return out;
}

std::optional<SizePoint> BoxCover::least_within(Term term, std::size_t side) {
  if (term.empty()) {
    SizePoint point;
    for (const Range& range : now_) point.push_back(range.lower);
    return point;
  }
  if (side == now_.size()) return std::nullopt;
  const Range all = now_[side];
  if (!mentions(term, side)) now_[side].upper = all.lower;  // all values are equivalent
  if (now_[side].lower == now_[side].upper) {
    fix(term, side);
    return least_in(std::move(term), side + 1);
  }
  const std::vector<std::uint32_t> open(all_sides_.begin() + static_cast<std::ptrdiff_t>(side),
                                        all_sides_.end());
  const Key part = key(term, open);
  if (empty_.contains(part)) return std::nullopt;
  const std::int64_t middle = all.lower + (all.upper - all.lower) / 2;
  now_[side] = {all.lower, middle};
  auto found = least_in(term, side);
  if (!found) {
    now_[side] = {middle + 1, all.upper};
    found = least_in(term, side);
  }
  if (!found && !spent_) empty_.insert(part);
  return found;
}

std::optional<Wide> BoxCover::count(std::size_t index) {
  start();
  Wide all = 1;
  for (const Range& range : now_)
    if (range.empty() || !multiply_wide(all, width(range), all))
      return range.empty() ? std::optional<Wide>(0) : std::nullopt;
  Wide out = 0;
  try {
    const Term within = index < classes_.size() ? classes_[index] : Term{};
    for (const Term& term : beyond(std::min(index, classes_.size()), within))
      out += count_in(term, all_sides_);
  } catch (const OverflowError&) {
    spent_ = true;
  }
  return spent_ ? std::nullopt : std::optional(out);
}

/// The number of values of the sides that satisfy the term. Requires that the term mentions no
/// other sides.
Wide BoxCover::count_in(Term term, const std::vector<std::uint32_t>& sides) {
  const std::vector<Range> before = now_;
  Wide out = 0;
  if (narrow(term) && drop_true(term) && !spent_) {
    out = 1;
    std::vector<std::uint32_t> left = sides;
    while (!left.empty()) out *= count_part(term, left);
  }
  now_ = before;
  return out;
}

/// The count for the first side in `left` and all sides that predicates tie to it; removes these
/// sides from `left`.
Wide BoxCover::count_part(const Term& term, std::vector<std::uint32_t>& left) {
  std::vector<std::uint32_t> part{left.front()};
  Term own;
  for (std::size_t before = 0; before != part.size();) {
    before = part.size();
    for (const Literal literal : term) {
      const std::vector<std::uint32_t>& sides = sides_of_[literal];
      if (contains(own, literal) ||
          std::ranges::none_of(sides, [&](std::uint32_t side) { return contains(part, side); }))
        continue;
      own.push_back(literal);
      for (const std::uint32_t side : sides)
        if (!contains(part, side)) part.push_back(side);
    }
  }
  std::erase_if(left, [&](std::uint32_t side) { return contains(part, side); });
  if (own.empty()) return width(now_[part[0]]);
  std::ranges::sort(part);
  const Key at = key(own, part);
  if (const auto known = counted_.find(at); known != counted_.end()) return known->second;
  const Wide out = count_halves(own, part);
  if (!spent_) counted_.emplace(at, out);
  return out;
}

/// Halves the range of the side that most predicates mention.
Wide BoxCover::count_halves(Term term, const std::vector<std::uint32_t>& sides) {
  const auto uses = [&](std::uint32_t side) {
    return std::ranges::count_if(
        term, [&](Literal literal) { return contains(sides_of_[literal], side); });
  };
  const std::uint32_t side = *std::ranges::max_element(sides, {}, uses);
  const Range all = now_[side];
  if (all.lower == all.upper) {
    fix(term, side);
    return count_in(std::move(term), sides);
  }
  const std::int64_t middle = all.lower + (all.upper - all.lower) / 2;
  now_[side] = {all.lower, middle};
  Wide out = count_in(term, sides);
  now_[side] = {middle + 1, all.upper};
  out += count_in(std::move(term), sides);
  now_[side] = all;
  return out;
}

}  // namespace lockstep::shapes
