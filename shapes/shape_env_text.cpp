// The text of errors: one sentence in source names that says what, where and what to do.
#include <lockstep/shapes/shape_env.h>

#include <fmt/format.h>

namespace lockstep::shapes {
namespace {

std::string range_text(const Range& range) {
  if (range.lower != Range::kMin && range.upper != Range::kMax) {
    return fmt::format("between {} and {}", range.lower, range.upper);
  }
  if (range.lower != Range::kMin) return fmt::format("at least {}", range.lower);
  if (range.upper != Range::kMax) return fmt::format("at most {}", range.upper);
  return "any integer";
}

}  // namespace

std::string ShapeEnv::describe(Symbol symbol) const {
  const SymbolRecord& r = record(symbol);
  const std::string made = r.where.file.empty() ? "" : "made at " + r.where.text() + ", ";
  return fmt::format("{} ({}{})", r.source, made, range_text(r.range));
}

std::string ShapeEnv::values_under_hints(const Expr& expr) const {
  std::string out;
  for (const Symbol symbol : expr.symbols()) {
    const auto& hint = record(symbol).hint;
    out += hint ? fmt::format("{}{} is {}", out.empty() ? ": " : ", ", record(symbol).source, *hint)
                : fmt::format("{}{}", out.empty() ? ": " : ", ", describe(symbol));
  }
  return out;
}

void ShapeEnv::throw_data_dependent(const Expr& open, const Predicate& asked,
                                    const Location& where) const {
  std::string unknown;
  bool marked = false;
  for (const Symbol symbol : open.symbols()) {
    if (!symbol.unbacked) continue;
    unknown += (unknown.empty() ? "" : " and ") + describe(symbol);
    marked = marked || record(symbol).where.file.empty();
  }
  const auto namer = source_namer();
  throw DataDependentError(fmt::format(
      "{}: this branch on `{}` needs {}, known only when the graph runs; write the general path that "
      "is right either way, call check({}) or check({}) before it if one of them always holds{}",
      where.text(), asked.text(namer), unknown, asked.text(namer), asked.negated().text(namer),
      marked ? ", or do not mark the dim unbacked" : ""));
}

void ShapeEnv::throw_data_dependent_int(const Expr& open, const Expr& asked,
                                        const Location& where) const {
  std::string unknown;
  for (const Symbol symbol : open.symbols()) {
    if (symbol.unbacked) unknown += (unknown.empty() ? "" : " and ") + describe(symbol);
  }
  const std::string text = asked.text(source_namer());
  throw DataDependentError(fmt::format(
      "{}: a number is needed for `{}`, but {} is known only when the graph runs; keep the size "
      "symbolic, or call check({} == N) before it if it always is N",
      where.text(), text, unknown, text));
}

void ShapeEnv::throw_if_pinned(const Predicate& asked, const Location& where) const {
  for (const SymbolRecord& r : symbols_) {
    const auto found = replacements_.find(r.symbol);
    if (!r.pinned_is_error || found == replacements_.end()) continue;
    const auto value = found->second.constant();
    if (!value) continue;
    std::string earlier;
    for (const Guard& guard : guards_) {
      const auto symbols = guard.predicate.expr.symbols();
      const bool about = symbols.size() == 1 && symbols[0] == r.symbol && !(guard.where == where);
      if (!about) continue;
      earlier += fmt::format("{}`{}` at {}", earlier.empty() ? " together with " : ", ",
                             guard.predicate.text(source_namer()), guard.where.text());
    }
    throw ConstraintError(fmt::format(
        "{}: `{}`{} fixes {} to {}, but that dim is marked dynamic; write code that is right for every "
        "size, or mark it static or remove the mark",
        where.text(), asked.text(source_namer()), earlier, r.source, *value));
  }
}

void ShapeEnv::throw_no_value(const std::string& asked, const Expr& expr,
                              const Location& where) const {
  throw ConstraintError(fmt::format(
      "{}: `{}` has no value at the agreed sizes, by division by zero or overflow{}; test the sizes "
      "before it",
      where.text(), asked, values_under_hints(expr)));
}

}  // namespace lockstep::shapes
