// The text of errors: one sentence, with the names of sources, that says what went wrong, where,
// and what to do.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

constexpr std::size_t kMaxDescribed = 3, kMaxText = 200, kMaxVaried = 2;

std::string shortened(std::string text) {
  return text.size() <= kMaxText ? text : text.substr(0, kMaxText - 20) + " ...";
}

}  // namespace

std::string ShapeEnv::describe(Symbol symbol) const {
  const SymbolRecord& r = record(symbol);
  const std::string made = r.where.file.empty() ? "" : "made at " + r.where.text() + ", ";
  return fmt::format("{} ({}{})", r.source, made, range_text(r.range));
}

// The unbacked symbols of the expression; if there are many, the first few.
std::string ShapeEnv::describe_unbacked(const Expr& expr) const {
  std::vector<Symbol> open = expr.symbols();
  std::erase_if(open, [](Symbol symbol) { return !symbol.unbacked; });
  std::string out;
  for (std::size_t i = 0; i < std::min(open.size(), kMaxDescribed); ++i) {
    out += (i == 0 ? "" : " and ") + describe(open[i]);
  }
  if (open.size() > kMaxDescribed) out += fmt::format(" and {} more", open.size() - kMaxDescribed);
  return out;
}

std::string ShapeEnv::text_of(const Predicate& predicate) const {
  return shortened(predicate.text(source_namer()));
}
std::string ShapeEnv::text_of(const Expr& expr) const {
  return shortened(expr.text(source_namer()));
}

std::string ShapeEnv::values_under_hints(const Expr& expr) const {
  std::string out;
  std::vector<Symbol> shown = expr.symbols();
  if (shown.size() > kMaxDescribed) shown.resize(kMaxDescribed);
  for (const Symbol symbol : shown) {
    const auto& hint = record(symbol).hint;
    out += hint ? fmt::format("{}{} is {}", out.empty() ? ": " : ", ", record(symbol).source, *hint)
                : fmt::format("{}{}", out.empty() ? ": " : ", ", describe(symbol));
  }
  return out;
}

// Small values of the open symbols that satisfy the asserts and give different answers; empty if no
// such values were found.
std::string ShapeEnv::both_answers(const Predicate& open) const {
  std::vector<Symbol> free = open.expr.symbols();
  std::erase_if(free, [](Symbol symbol) { return !symbol.unbacked; });
  if (free.size() > kMaxVaried) return "";
  std::map<Symbol, std::int64_t> at;
  const Valuation values = [&](Symbol symbol) -> std::optional<std::int64_t> {
    if (!symbol.unbacked) return record(symbol).hint;
    const auto found = at.find(symbol);
    return found == at.end() ? std::nullopt : std::optional(found->second);
  };
  std::array<std::string, 2> seen;
  const std::size_t width = free.size() == 1 ? 64 : 8;
  const std::size_t points = free.size() == 1 ? width : width * width;
  for (std::size_t point = 0; point < points && (seen[0].empty() || seen[1].empty()); ++point) {
    std::size_t rest = point;
    bool possible = true;
    for (const Symbol symbol : free) {
      const Range range = record(symbol).range;
      at[symbol] =
          (range.lower == Range::kMin ? 0 : range.lower) + static_cast<std::int64_t>(rest % width);
      possible = possible && range.contains(at[symbol]);
      rest /= width;
    }
    for (const DeferredAssert& assert : asserts_)
      possible = possible && assert.predicate.evaluate(values) != false;
    const auto answer = open.evaluate(values);
    if (!possible || !answer || !seen[*answer ? 1 : 0].empty()) continue;
    std::string& text = seen[*answer ? 1 : 0];
    for (const Symbol symbol : free)
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", record(symbol).source, at[symbol]);
  }
  if (seen[0].empty() || seen[1].empty()) return "";
  return fmt::format(" (true for {}; false for {})", seen[1], seen[0]);
}

void ShapeEnv::throw_data_dependent(const Predicate& open, const Predicate& asked,
                                    const Location& where) const {
  bool marked = false;
  for (const Symbol symbol : open.expr.symbols()) {
    marked = marked || (symbol.unbacked && record(symbol).where.file.empty());
  }
  const std::string text = text_of(asked), left = text_of(open);
  throw DataDependentError(fmt::format(
      "{}: this branch on `{}` needs {}, known only when the graph runs{}{}; write the general "
      "path that is right either way, call check({}) or check({}) before it if one of them always "
      "holds{}",
      where.text(), text, describe_unbacked(open.expr),
      left == text || left == text_of(asked.negated())
          ? ""
          : fmt::format(", and comes down to `{}`", left),
      both_answers(open), text, text_of(asked.negated()),
      marked ? ", or do not mark the dim unbacked" : ""));
}

void ShapeEnv::throw_data_dependent_int(const Expr& open, const Expr& asked,
                                        const Location& where) const {
  const std::string text = text_of(asked);
  throw DataDependentError(
      fmt::format("{}: a number is needed for `{}`, which needs {}, known only when the graph "
                  "runs; keep the size "
                  "symbolic, or call check({} == N) before it if it always is N",
                  where.text(), text, describe_unbacked(open), text));
}

void ShapeEnv::throw_no_value(const std::string& asked, const Expr& expr, const Location& where) {
  fails_without_value(expr, where);
  throw ConstraintError(
      fmt::format("{}: `{}` has no value at the agreed sizes, by division by zero or overflow{}; "
                  "test the sizes "
                  "before it",
                  where.text(), asked, values_under_hints(expr)));
}

}  // namespace lockstep::shapes
