// Expressions as users read them.
#include <algorithm>
#include <optional>

#include <lockstep/shapes/expr/polynomial.h>

namespace lockstep::shapes {
namespace {

std::string atom_text(const Expr::Atom& atom, const Namer& namer);

bool is_plain(const Expr& e) {
  const auto terms = e.terms();
  if (terms.empty()) return true;
  if (terms.size() > 1) return false;
  const auto& factors = terms[0].factors;
  if (factors.empty()) return terms[0].coefficient >= 0;
  return terms[0].coefficient == 1 && factors.size() == 1 && factors[0].power == 1 &&
         factors[0].atom->op != Expr::Op::FloorDiv;
}

std::string operand_text(const Expr& e, const Namer& namer) {
  return is_plain(e) ? e.text(namer) : "(" + e.text(namer) + ")";
}

std::string call_text(const char* name, const std::vector<Expr>& operands, const Namer& namer) {
  std::string out = name;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out += (i == 0 ? "(" : ", ") + operands[i].text(namer);
  }
  return out + ")";
}

std::string atom_text(const Expr::Atom& atom, const Namer& namer) {
  switch (atom.op) {
    case Expr::Op::Symbol:
      return namer(atom.symbol);
    case Expr::Op::FloorDiv:
      return operand_text(atom.operands[0], namer) + " // " + operand_text(atom.operands[1], namer);
    case Expr::Op::Mod:
      return call_text("Mod", atom.operands, namer);
    case Expr::Op::Min:
      return call_text("Min", atom.operands, namer);
    case Expr::Op::Max:
      return call_text("Max", atom.operands, namer);
  }
  return {};
}

// Which terms of a quotient's dividend have a minus. None is also the answer for other atoms, and
// if the dividend cannot be negated.
enum class Minuses : std::uint8_t { None, Some, All };

Minuses minuses_of(const Expr::Atom& atom) {
  if (atom.op != Expr::Op::FloorDiv) return Minuses::None;
  const auto terms = atom.operands[0].terms();
  const auto has_minus = [](const Expr::Term& term) { return term.coefficient < 0; };
  const auto is_lowest = [](const Expr::Term& term) { return term.coefficient == INT64_MIN; };
  if (std::any_of(terms.begin(), terms.end(), is_lowest)) return Minuses::None;
  const auto count = std::count_if(terms.begin(), terms.end(), has_minus);
  if (count == 0) return Minuses::None;
  return static_cast<std::size_t>(count) == terms.size() ? Minuses::All : Minuses::Some;
}

// How a term is written. A quotient with a negative dividend becomes the CeilDiv of the negated
// dividend, with the opposite sign.
struct Shown {
  bool negative = false;         // the term has a minus before it
  bool turned = false;           // one factor, which reads equally well both ways, was negated
  std::vector<bool> rounded_up;  // by factor
};

// Chooses how the term is written. A term reads best without a minus, so quotients with a negative
// dividend become CeilDiv. If a minus is left, a quotient that reads equally well both ways becomes
// CeilDiv, too.
Shown shown(const Expr::Term& term) {
  Shown out{term.coefficient < 0, false, std::vector<bool>(term.factors.size(), false)};
  std::optional<std::size_t> either;  // a factor that reads equally well both ways
  for (std::size_t i = 0; i < term.factors.size(); ++i) {
    const Minuses minuses = minuses_of(*term.factors[i].atom);
    const bool odd = term.factors[i].power % 2 == 1;
    out.rounded_up[i] = minuses == Minuses::All;
    if (out.rounded_up[i] && odd) out.negative = !out.negative;
    if (minuses == Minuses::Some && odd && !either) either = i;
  }
  if (out.negative && either) {
    out.rounded_up[*either] = true;
    out.negative = false;
    out.turned = true;
  }
  return out;
}

// The term without its sign. Powers are written as products, so that users can write the text as
// input.
std::string term_text(const Expr::Term& term, const Shown& how, const Namer& namer) {
  const auto c = static_cast<std::uint64_t>(term.coefficient);
  const std::string number = std::to_string(term.coefficient < 0 ? 0 - c : c);
  std::string out = number == "1" && !term.factors.empty() ? "" : number;
  const bool alone = out.empty() && term.factors.size() == 1 && term.factors[0].power == 1;
  for (std::size_t f = 0; f < term.factors.size(); ++f) {
    const Expr::Atom& atom = *term.factors[f].atom;
    std::string text = how.rounded_up[f]
                           ? call_text("CeilDiv", {-atom.operands[0], atom.operands[1]}, namer)
                           : atom_text(atom, namer);
    if (atom.op == Expr::Op::FloorDiv && !how.rounded_up[f] && !alone) text = "(" + text + ")";
    for (std::uint32_t i = 0; i < term.factors[f].power; ++i)
      out += (out.empty() ? "" : "*") + text;
  }
  return out;
}

// True if the term is written as a bare "a // b", apart from its sign.
bool is_bare_division(const Expr::Term& term, const Shown& how) {
  const bool one = term.coefficient == 1 || term.coefficient == -1;
  return one && term.factors.size() == 1 && term.factors[0].power == 1 &&
         term.factors[0].atom->op == Expr::Op::FloorDiv && !how.rounded_up[0];
}

}  // namespace

bool reads_as_negative(const Expr::Term& term) {
  const Shown how = shown(term);
  return how.negative || how.turned;
}

bool reads_either_way(const Expr::Term& term) {
  return term.factors.size() == 1 && term.factors[0].power % 2 == 1 &&
         minuses_of(*term.factors[0].atom) == Minuses::Some;
}

std::string Expr::text() const {
  return text([](lockstep::shapes::Symbol symbol) { return symbol.name(); });
}

std::string Expr::text(const Namer& namer) const {
  if (terms().empty()) return "0";
  std::string out;
  for (const auto& term : terms()) {
    const Shown how = shown(term);
    // Writes "-(a // b)": without parentheses the minus would belong to a.
    const bool bare_division = out.empty() && how.negative && is_bare_division(term, how);
    const std::string text = term_text(term, how, namer);
    if (out.empty()) {
      out = (how.negative ? "-" : "") + (bare_division ? "(" + text + ")" : text);
    } else {
      out += (how.negative ? " - " : " + ") + text;
    }
  }
  return out;
}

}  // namespace lockstep::shapes
