#include <lockstep/shapes/expr.h>

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

// The term without its sign. Powers are written out: the text is valid where users write it.
std::string term_text(const Expr::Term& term, const Namer& namer) {
  const auto c = static_cast<std::uint64_t>(term.coefficient);
  const std::string number = std::to_string(term.coefficient < 0 ? 0 - c : c);
  std::string out = number == "1" && !term.factors.empty() ? "" : number;
  const bool alone = out.empty() && term.factors.size() == 1 && term.factors[0].power == 1;
  for (const auto& factor : term.factors) {
    std::string text = atom_text(*factor.atom, namer);
    if (factor.atom->op == Expr::Op::FloorDiv && !alone) text = "(" + text + ")";
    for (std::uint32_t i = 0; i < factor.power; ++i) out += (out.empty() ? "" : "*") + text;
  }
  return out;
}

}  // namespace

std::string Expr::text() const {
  return text([](lockstep::shapes::Symbol symbol) { return symbol.name(); });
}

std::string Expr::text(const Namer& namer) const {
  if (terms().empty()) return "0";
  std::string out;
  for (const auto& term : terms()) {
    const bool negative = term.coefficient < 0;
    // "-(a // b)": a minus binds less tightly than the division that it would otherwise join.
    const bool bare_division = out.empty() && negative && term.coefficient == -1 &&
                               term.factors.size() == 1 && term.factors[0].power == 1 &&
                               term.factors[0].atom->op == Op::FloorDiv;
    const std::string text = term_text(term, namer);
    if (out.empty()) {
      out = (negative ? "-" : "") + (bare_division ? "(" + text + ")" : text);
    } else {
      out += (negative ? " - " : " + ") + text;
    }
  }
  return out;
}

}  // namespace lockstep::shapes
