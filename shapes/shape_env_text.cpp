// The text of errors: one sentence in source names that says what, where and what to do.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

constexpr std::size_t kMaxDescribed = 3, kMaxText = 200;

std::string shortened(std::string text) {
  return text.size() <= kMaxText ? text : text.substr(0, kMaxText - 20) + " ...";
}

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

// The unbacked symbols of the expression; of many the first few.
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

void ShapeEnv::throw_data_dependent(const Expr& open, const Predicate& asked,
                                    const Location& where) const {
  bool marked = false;
  for (const Symbol symbol : open.symbols()) {
    marked = marked || (symbol.unbacked && record(symbol).where.file.empty());
  }
  throw DataDependentError(fmt::format(
      "{}: this branch on `{}` needs {}, known only when the graph runs; write the general path "
      "that "
      "is right either way, call check({}) or check({}) before it if one of them always holds{}",
      where.text(), text_of(asked), describe_unbacked(open), text_of(asked),
      text_of(asked.negated()), marked ? ", or do not mark the dim unbacked" : ""));
}

void ShapeEnv::throw_data_dependent_int(const Expr& open, const Expr& asked,
                                        const Location& where) const {
  const std::string text = text_of(asked);
  throw DataDependentError(fmt::format(
      "{}: a number is needed for `{}`, but {} is known only when the graph runs; keep the size "
      "symbolic, or call check({} == N) before it if it always is N",
      where.text(), text, describe_unbacked(open), text));
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
                             text_of(guard.predicate), guard.where.text());
    }
    throw ConstraintError(
        fmt::format("{}: `{}`{} fixes {} to {}, but that dim is marked dynamic; write code that is "
                    "right for every "
                    "size, or mark it static or remove the mark",
                    where.text(), text_of(asked), earlier, r.source, *value));
  }
}

void ShapeEnv::throw_no_value(const std::string& asked, const Expr& expr,
                              const Location& where) const {
  throw ConstraintError(
      fmt::format("{}: `{}` has no value at the agreed sizes, by division by zero or overflow{}; "
                  "test the sizes "
                  "before it",
                  where.text(), asked, values_under_hints(expr)));
}

}  // namespace lockstep::shapes
