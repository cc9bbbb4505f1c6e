#include <algorithm>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/sign.h>

namespace lockstep::shapes {
namespace {

using Op = Expr::Op;

constexpr std::size_t kMaxOpaque = 8;  // maximum number of terms with opaque atoms

// The opaque factor of the term, if it is the only one and has power 1.
const Expr::Atom* opaque_factor(const Expr::Term& term) {
  const Expr::Atom* found = nullptr;
  for (const auto& factor : term.factors) {
    if (factor.atom->op == Op::Symbol) continue;
    if (found || factor.power != 1) return nullptr;
    found = factor.atom.get();
  }
  return found;
}

// Lower bounds of e == rest + term or of a positive multiple of e, each made from one bound of the
// term's opaque atom.
std::vector<Expr> weaker(const Expr::Term& term, const Expr& rest, const SymbolRanges& symbols) {
  const Expr::Atom& atom = *opaque_factor(term);
  const std::int64_t c = term.coefficient;
  const Expr& a = atom.operands[0];
  const Expr& b = atom.operands[1];
  const bool alone = term.factors.size() == 1;
  std::vector<Expr> out;
  if (alone && atom.op == (c > 0 ? Op::Max : Op::Min)) {
    for (const auto& operand : atom.operands) out.push_back(rest + c * operand);
  }
  if (atom.op != Op::Mod && atom.op != Op::FloorDiv) return out;
  if (range_of(b, symbols).lower < 1) return out;
  if (alone && atom.op == Op::Mod && c < 0) {
    out.push_back(rest + c * (b - 1));
    if (range_of(a, symbols).lower >= 0) out.push_back(rest + c * a);
  }
  if (atom.op == Op::FloorDiv) {
    // a - b + 1 <= b*(a // b) <= a
    const Expr bound = c > 0 ? a - b + 1 : a;
    if (alone && b.constant()) out.push_back(b * rest + c * bound);
    if (Expr::of_terms({term}) == c * b * floor_div(a, b)) out.push_back(rest + c * bound);
  }
  return out;
}

}  // namespace

bool never_negative(const Expr& e, const SymbolRanges& symbols, int depth) {
  if (range_of(e, symbols).lower >= 0) return true;
  if (depth == 0) return false;
  std::vector<Expr::Term> opaque(e.terms().begin(), e.terms().end());
  std::erase_if(opaque, [](const Expr::Term& term) { return !opaque_factor(term); });
  if (opaque.size() > kMaxOpaque) return false;
  for (const auto& term : opaque) {
    const auto all = weaker(term, e - Expr::of_terms({term}), symbols);
    const auto holds = [&](const Expr& w) { return never_negative(w, symbols, depth - 1); };
    if (std::any_of(all.begin(), all.end(), holds)) return true;
  }
  return false;
}

}  // namespace lockstep::shapes
