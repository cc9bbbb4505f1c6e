// Reads printed expressions and predicates, by recursive descent over
//   predicate: sum ("==" | "!=" | "<" | "<=" | ">" | ">=") sum
//   sum:       term (("+" | "-") term)*
//   term:      unary (("*" | "//" | "%") unary)*
//   unary:     "-" unary | number | name | "(" sum ")"
//              | ("Mod" | "CeilDiv" | "Min" | "Max") "(" sum, ... ")"
#include <charconv>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::shapes {
namespace {

constexpr int kMaxDepth = 100;

template <class T>
bool take_number(std::string_view& rest, T& out) {
  if (rest.empty() || rest.front() < '0' || rest.front() > '9') return false;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

/// "s0", "u3"
std::optional<Expr> take_symbol(std::string_view& rest) {
  if (!rest.starts_with('s') && !rest.starts_with('u')) return std::nullopt;
  const bool unbacked = rest.front() == 'u';
  rest.remove_prefix(1);
  std::uint32_t serial = 0;
  if (!take_number(rest, serial)) return std::nullopt;
  return Expr::symbol({unbacked, serial});
}

class Parser {
 public:
  Parser(std::string_view text, const NameReader& names) : rest_(text), names_(names) {}

  std::optional<Expr> whole_sum() {
    const Expr out = sum_of();
    return finished() ? std::optional(out) : std::nullopt;
  }

  std::optional<Predicate> whole_predicate() {
    const Expr left = sum_of();
    using Maker = Predicate (*)(const Expr&, const Expr&);
    Maker make = nullptr;
    if (take("==")) {
      make = equal;
    } else if (take("!=")) {
      make = not_equal;
    } else if (take("<=")) {
      make = less_equal;
    } else if (take(">=")) {
      make = greater_equal;
    } else if (take("<")) {
      make = less;
    } else if (take(">")) {
      make = greater;
    }
    const Expr right = sum_of();
    return make && finished() ? std::optional(make(left, right)) : std::nullopt;
  }

  /// The unread rest of the text.
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  bool finished() {
    skip_spaces();
    return !failed_ && rest_.empty();
  }

  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (failed_ || !rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  Expr fail() {
    failed_ = true;
    return 0;
  }

  Expr sum_of() {
    Expr out = term();
    while (!failed_) {
      if (take("+")) {
        out = out + term();
      } else if (take("-")) {
        out = take_lowest() ? out + lowest_term() : out - term();
      } else {
        break;
      }
    }
    return out;
  }

  /// Reads the lowest int64 together with its sign, because it has no positive counterpart.
  bool take_lowest() {
    skip_spaces();
    constexpr std::string_view kMagnitude = "9223372036854775808";
    if (!rest_.starts_with(kMagnitude)) return false;
    const std::string_view after = rest_.substr(kMagnitude.size());
    if (!after.empty() && after.front() >= '0' && after.front() <= '9') return false;
    rest_ = after;
    return true;
  }

  /// Reads a term that begins with the lowest int64, as in "a - 9223372036854775808*s0". The sign
  /// belongs to the number in a product, but not in a quotient.
  Expr lowest_term() {
    if (take("//") || take("%")) return fail();
    return term_from(INT64_MIN);
  }

  Expr term() { return term_from(unary()); }

  Expr term_from(Expr out) {
    while (!failed_) {
      if (take("//")) {
        out = floor_div(out, unary());
      } else if (take("*")) {
        out = out * unary();
      } else if (take("%")) {
        out = mod(out, unary());
      } else {
        break;
      }
    }
    return out;
  }

  Expr unary() {
    if (failed_ || ++depth_ > kMaxDepth) return fail();
    const Expr out = unary_within();
    --depth_;
    return out;
  }

  Expr unary_within() {
    if (take("-")) {
      return take_lowest() ? Expr(INT64_MIN) : -unary();
    }
    if (take("(")) {
      const Expr out = sum_of();
      return take(")") ? out : fail();
    }
    if (take("Mod(")) return call(mod, 2);
    if (take("CeilDiv(")) return call(ceil_div, 2);
    if (take("Min(")) return call(min, 0);
    if (take("Max(")) return call(max, 0);
    skip_spaces();
    std::int64_t value = 0;
    if (take_number(rest_, value)) return value;
    const auto named = names_(rest_);
    return named ? *named : fail();
  }

  // Arguments up to the closing parenthesis; `count` zero means two or more.
  Expr call(Expr (*op)(const Expr&, const Expr&), int count) {
    Expr out = sum_of();
    int seen = 1;
    while (!failed_ && take(",")) {
      out = op(out, sum_of());
      ++seen;
    }
    const bool fits = count == 0 ? seen >= 2 : seen == count;
    return take(")") && fits ? out : fail();
  }

  std::string_view rest_;
  const NameReader& names_;
  int depth_ = 0;
  bool failed_ = false;
};

template <class T>
std::optional<T> read(std::optional<T> (Parser::*whole)(), std::string_view text,
                      const NameReader& names, std::string_view& unread) {
  Parser parser(text, names);
  std::optional<T> out;
  try {
    out = (parser.*whole)();
  } catch (const OverflowError&) {
    out.reset();
  }
  unread = parser.rest();
  return out;
}

}  // namespace

std::optional<Expr> parse_expr(std::string_view text) {
  std::string_view unread;
  return parse_expr(text, take_symbol, unread);
}

std::optional<Expr> parse_expr(std::string_view text, const NameReader& names,
                               std::string_view& unread) {
  return read(&Parser::whole_sum, text, names, unread);
}

std::optional<Predicate> parse_predicate(std::string_view text) {
  std::string_view unread;
  return parse_condition(text, take_symbol, unread);
}

std::optional<Predicate> parse_condition(std::string_view text, const NameReader& names,
                                         std::string_view& unread) {
  return read(&Parser::whole_predicate, text, names, unread);
}

}  // namespace lockstep::shapes
