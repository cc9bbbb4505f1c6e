// What a broken promise is told to declare: it reads back, and with it declared the same branch is
// known and leaves no guard.
#include "shape_env_fixture.h"

namespace lockstep::shapes::declaration_test {
namespace {

constexpr Range kPromised{2, 64};

// x.size(0), whose range is promised, and two others that fit what most cases ask.
struct Sizes {
  ShapeEnv env;
  Expr x, y, z;
  explicit Sizes(Range promised = kPromised)
      : x(env.backed("x.size(0)", 9, promised, Constraint::WholeRange)),
        y(env.backed("y.size(0)", 18, {2, 512})),
        z(env.backed("nested[0].z.size(1)", 162, {2, 5000})) {}

  // nullopt: no name.
  [[nodiscard]] std::optional<Expr> named(std::string_view& rest) const {
    for (const auto& record : env.symbols()) {
      if (!rest.starts_with(record.source)) continue;
      rest.remove_prefix(record.source.size());
      return Expr::symbol(record.symbol);
    }
    return std::nullopt;
  }
};

struct Case {
  const char* name;
  std::function<Predicate(const Sizes&)> asked;
  const char* declare;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"a bound", [](const Sizes& s) { return less_equal(s.x, 32); }, "x.size(0) <= 32"},
      {"a remainder", [](const Sizes& s) { return equal(mod(s.x, 4), 1); }, "x.size(0) % 4 == 1"},
      {"a remainder of a multiple", [](const Sizes& s) { return equal(mod(3 * s.x + 2, 8), 5); },
       "x.size(0) % 8 == 1"},
      {"a whole quotient", [](const Sizes& s) { return equal(3 * floor_div(s.x, 3), s.x); },
       "x.size(0) % 3 == 0"},
      {"a quotient with a rest",
       [](const Sizes& s) { return equal(4 * floor_div(s.x, 4) + 1, s.x); }, "x.size(0) % 4 == 1"},
      {"another remainder", [](const Sizes& s) { return equal(mod(s.x, 4), 3); },
       "x.size(0) % 4 != 3"},
      {"another number", [](const Sizes& s) { return equal(s.x, 7); }, "x.size(0) != 7"},
      {"a multiple of it", [](const Sizes& s) { return equal(s.y, 2 * s.x); },
       "y.size(0) == 2*x.size(0)"},
      {"it by another one", [](const Sizes& s) { return equal(s.x + 9, s.y); },
       "x.size(0) == y.size(0) - 9"},
      {"a multiple of it elsewhere", [](const Sizes& s) { return equal(18 * s.x, s.z); },
       "nested[0].z.size(1) == 18*x.size(0)"},
      {"no coefficient is one", [](const Sizes& s) { return equal(4 * s.x, 2 * s.y + 0); },
       "y.size(0) == 2*x.size(0)"},
      {"neither by the other", [](const Sizes& s) { return equal(10 * s.x, 4 * s.y + 18); },
       "5*x.size(0) == 2*y.size(0) + 9"},
      {"a product", [](const Sizes& s) { return equal(s.x * s.y, s.z); },
       "nested[0].z.size(1) == x.size(0)*y.size(0)"},
      {"a remainder by both", [](const Sizes& s) { return equal(mod(s.x * s.y, 6), 0); },
       "Mod(x.size(0)*y.size(0), 6) == 0"},
      {"an order", [](const Sizes& s) { return less(s.x, s.y); }, "x.size(0) < y.size(0)"},
  };
  return all;
}

std::string declared_in(const std::string& message) {
  const std::string opening = "declare \"";
  const std::size_t from = message.find(opening);
  const std::size_t to = message.find("\" in the frame's constraints", from);
  if (from == std::string::npos || to == std::string::npos) return "nothing: " + message;
  return message.substr(from + opening.size(), to - from - opening.size());
}

TEST(Declaration, OfABrokenPromise_ReadsBackAndIsEnough) {
  for (const Case& one : cases()) {
    Sizes before;
    std::string message;
    try {
      static_cast<void>(before.env.evaluate(one.asked(before), {"m.cpp", 5}));
    } catch (const ConstraintError& error) {
      message = error.what();
    }
    const std::string text = declared_in(message);
    EXPECT_EQ(text, one.declare) << one.name;

    std::string_view unread;
    const auto read = parse_condition(
        text, [&](std::string_view& rest) { return before.named(rest); }, unread);
    ASSERT_TRUE(read) << one.name << ": " << text << " from " << unread;
    // As a frame takes them over: bounds are the range, the rest is declared.
    Facts facts;
    facts.add(*read);
    const Range bound = facts.range(before.x);
    Sizes after(intersect(kPromised, bound));
    if (bound == Range{}) after.env.declare(*read, {"declared", 0});
    EXPECT_EQ(after.env.evaluate(one.asked(after), {"m.cpp", 5}),
              one.asked(after).evaluate([&](Symbol s) { return after.env.record(s).hint; }))
        << one.name;
    EXPECT_TRUE(after.env.guards().empty()) << one.name << ": " << text;
    EXPECT_TRUE(after.env.deferred_asserts().empty()) << one.name;
  }
}

}  // namespace
}  // namespace lockstep::shapes::declaration_test
