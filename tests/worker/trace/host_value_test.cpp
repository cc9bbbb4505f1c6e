// Scalars that are known before the graph runs: branches on floats, 0-d integers as sizes (vectors
// 30 and 50 of symbolic shapes).
#include <cmath>
#include <limits>
#include <random>

#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::host_value_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using test::setup;
using Code = HostValue::Code;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// lr and n, as one rank holds them; the group's lowest rank holds `lowest`.
class Host final : public TraceHost {
 public:
  Host(double lr, std::int64_t n) {
    own = ObservationBuilder().real("lr").tensor("n", {}, DType::I64).tensor("x", {6}).build();
    own.scalars = {std::bit_cast<std::int64_t>(lr), n};
  }
  Result<bool> group_any(bool mine, const shapes::Predicate&) override { return mine; }
  Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) override {
    asked.push_back(mine);
    return answers.size() < asked.size() ? mine : answers[asked.size() - 1];
  }
  Result<Graph> traced(const std::function<void(Trace&)>& body, bool specialize = false) {
    const Decision decision = DecisionBuilder()
                                  .number("lr")
                                  .tensor("n", DType::I64, {})
                                  .tensor("x", DType::F32, {dynamic(6)})
                                  .get();
    TraceSetup with = setup(decision, 2, this);
    with.observation = &own;
    with.specialize_float = specialize;
    return trace(with, body);
  }
  Observation own;
  std::vector<std::int64_t> answers, asked;
};

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}

TEST(HostValue, Vector_50_BranchOnAFloat_IsAGuardOnWhatItComparesTo) {
  Host host(2.5, 0);
  unsigned line = 0;
  const Graph graph = must(host.traced([&](Trace& t) {
    const SymFloat lr = t.float_input(0);
    line = __LINE__ + 1;
    if (lr > 2) t.output("y", t.tensor_input(2) * lr);
  }));
  ASSERT_EQ(graph.outputs.size(), 1U);
  ASSERT_EQ(graph.symbols.size(), 2U);
  EXPECT_EQ(graph.symbols[1].source, "(lr > 2)");
  ASSERT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(graph.guards[0].predicate.text(), "s1 == 1");
  EXPECT_EQ(graph.guards[0].where, (shapes::Location{"host_value_test.cpp", line}));
  EXPECT_EQ(host.asked, std::vector<std::int64_t>{1});
  EXPECT_TRUE(graph.verify());
}

TEST(HostValue, BranchTakesTheAnswerOfTheLowestRank) {
  Host host(2.5, 0);
  host.answers = {0};
  bool taken = true;
  const Graph graph = must(host.traced([&](Trace& t) { taken = bool(t.float_input(0) > 2); }));
  EXPECT_FALSE(taken);
  ASSERT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(graph.guards[0].predicate.text(), "s1 != 1");
}

TEST(HostValue, AskedTwice_IsOneQuestionAndOneGuard) {
  Host host(2.5, 0);
  const Graph graph = must(host.traced([](Trace& t) {
    const SymFloat lr = t.float_input(0);
    for (int i = 0; i < 3; ++i) (void)bool((lr * 2 - 1) / 4 >= lr);
  }));
  EXPECT_EQ(host.asked.size(), 1U);
  EXPECT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(graph.symbols[1].source, "((((lr * 2) - 1) / 4) >= lr)");
}

TEST(HostValue, NotANumber_TakesTheBranchThatIeeeGives) {
  for (const auto op : {Code::Lt, Code::Le, Code::Gt, Code::Ge, Code::Eq, Code::Ne}) {
    const HostValue value{{{Code::Input, "lr"}, {Code::Number, {}, 2}, {op}}};
    const auto answer =
        value.evaluate([](std::string_view) { return std::bit_cast<std::int64_t>(kNan); });
    EXPECT_EQ(answer, op == Code::Ne ? 1 : 0) << value.text();
  }
}

TEST(HostValue, Vector_30_ItemOfAnInput_IsBackedAndMayBeGuarded) {
  Host host(0, 4);
  const Graph graph = must(host.traced([](Trace& t) {
    const SymInt n = item(t.tensor_input(1));
    if (n > 3) t.output("y", slice(t.tensor_input(2), 0, 0, n));
  }));
  ASSERT_EQ(graph.symbols.size(), 2U);
  EXPECT_EQ(graph.symbols[1].source, "n.item()");
  EXPECT_EQ(graph.symbols[1].hint, 4);
  ASSERT_GE(graph.guards.size(), 1U);
  EXPECT_EQ(graph.guards[0].predicate.text(), "s1 >= 4");
  for (const Node& node : graph.nodes) EXPECT_NE(node.op, Op::Item) << "no wait for the graph";
}

TEST(HostValue, RangeOfAnItemIsThatOfItsType) {
  const Decision decision = DecisionBuilder().tensor("b", DType::U8, {}).get();
  Observation own = ObservationBuilder().tensor("b", {}, DType::U8).build();
  own.scalars = {7};
  TraceSetup with = setup(decision);
  with.observation = &own;
  const Graph graph = must(trace(with, [](Trace& t) {
    const SymInt b = item(t.tensor_input(0));
    EXPECT_TRUE(statically_true(b >= 0) && statically_true(b <= 255));
    EXPECT_FALSE(statically_true(b <= 254));
  }));
  EXPECT_TRUE(graph.guards.empty());
}

TEST(HostValue, CheckOnAFloat_IsAnAssertAfterTheInputs) {
  Host host(0.5, 0);
  const Graph graph = must(host.traced([](Trace& t) {
    check(item_bool(t.float_input(0) > 0.0), "the rate is positive");
    t.output("y", t.tensor_input(2));
  }));
  EXPECT_TRUE(graph.guards.empty());
  const auto asserts = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                     [](const Node& node) { return node.op == Op::Assert; });
  EXPECT_EQ(asserts, 1);
}

TEST(HostValue, DataOfTheGraph_StillCannotBeBranchedOn) {
  Host host(2.5, 3);
  const auto refused = [&](const std::function<void(Trace&)>& body) {
    const auto graph = host.traced(body);
    EXPECT_FALSE(graph);
    return graph ? std::string() : graph.error().text();
  };
  EXPECT_NE(refused([](Trace& t) {
              if (sum(t.tensor_input(2)) > 0) return;
            }).find("known only when the graph runs"),
            std::string::npos);
  EXPECT_NE(refused([](Trace& t) {
              if (cast(sum(t.tensor_input(2)), DType::F64) > t.float_input(0)) return;
            }).find("known only when the graph runs"),
            std::string::npos);
  EXPECT_NE(refused([](Trace& t) {
              if (t.rank() > 0) return;
            }).find("known only when the graph runs"),
            std::string::npos);
  EXPECT_NE(refused([](Trace& t) {
              if (item(t.rank()) > 0) return;
            }),
            "");
  EXPECT_TRUE(host.asked.empty());
}

TEST(HostValue, WithoutTheScalarsOfACall_FloatsAreDataOfTheGraph) {
  Host host(2.5, 3);
  host.own.scalars.clear();
  EXPECT_FALSE(host.traced([](Trace& t) {
    if (t.float_input(0) > 2) return;
  }));
  EXPECT_TRUE(host.traced([](Trace& t) { (void)item(t.tensor_input(1)); }));
}

TEST(HostValue, SpecializedFloats_AreConstantsWithAGuardOnTheVeryNumber) {
  for (const double number : {2.5, 0.0, -0.0, kInfinity, -kInfinity, kNan, 1e-300}) {
    Host host(number, 0);
    double seen = 1;
    const Graph graph = must(host.traced(
        [&](Trace& t) {
          const SymFloat lr = t.float_input(0);
          ASSERT_FALSE(lr.traced());
          seen = lr.value();
        },
        true));
    EXPECT_EQ(std::bit_cast<std::int64_t>(seen), std::bit_cast<std::int64_t>(number));
    ASSERT_EQ(graph.guards.size(), 1U) << number;
    // The guard holds for this number and for none of the others.
    const HostValue value = graph.host_values().at(0);
    for (const double other : {2.5, 0.0, -0.0, kInfinity, -kInfinity, kNan, 1e-300, 2.6}) {
      const bool same = std::isnan(number) ? std::isnan(other)
                                           : std::bit_cast<std::int64_t>(number) ==
                                                 std::bit_cast<std::int64_t>(other);
      EXPECT_EQ(value.evaluate([&](auto) { return std::bit_cast<std::int64_t>(other); }), same)
          << value.text() << " of " << other;
    }
  }
}

TEST(HostValue, WellFormed_IsWhatCanBeEvaluated) {
  const auto all = [](std::string_view) { return true; };
  const auto none = [](std::string_view) { return false; };
  const HostValue::Step x{Code::Input, "x"}, two{Code::Number, {}, 2};
  EXPECT_TRUE((HostValue{{x}}.well_formed(all)));
  EXPECT_FALSE((HostValue{{x}}.well_formed(none)));
  EXPECT_TRUE((HostValue{{x, two, {Code::Lt}}}.well_formed(all)));
  for (const auto& wrong :
       {std::vector<HostValue::Step>{}, {two}, {x, two}, {x, {Code::Lt}}, {{Code::Neg}}})
    EXPECT_FALSE(HostValue{wrong}.well_formed(all)) << wrong.size();
}

/// The same expression as C++ computes it.
TEST(HostValue, RandomExpressions_GiveWhatTheProgramWouldCompute) {
  std::mt19937_64 random(20261121);
  const std::vector<double> numbers{0.0, -0.0, 1.0, -2.5, 1e-9, 3.0, kInfinity, kNan};
  for (int i = 0; i < 20000; ++i) {
    const double a = numbers[random() % numbers.size()], b = numbers[random() % numbers.size()];
    HostValue value{{{Code::Input, "a"}}};
    double expected = a;
    for (std::uint64_t n = random() % 5; n > 0; --n) {
      const auto code = static_cast<Code>(static_cast<int>(Code::Add) + random() % 4);
      const bool input = random() % 2 == 0;
      const double c = input ? b : numbers[random() % numbers.size()];
      value.steps.push_back(input ? HostValue::Step{Code::Input, "b"}
                                  : HostValue::Step{Code::Number, {}, c});
      value.steps.push_back({code});
      expected = code == Code::Add   ? expected + c
                 : code == Code::Sub ? expected - c
                 : code == Code::Mul ? expected * c
                                     : expected / c;
    }
    value.steps.push_back({Code::Input, "b"});
    value.steps.push_back({Code::Lt});
    bool truth = expected < b;
    if (random() % 2 == 0) {
      value.steps.push_back({Code::Not});
      truth = !truth;
    }
    const auto answer = value.evaluate([&](std::string_view source) {
      return std::bit_cast<std::int64_t>(source == "a" ? a : b);
    });
    ASSERT_EQ(answer, truth ? 1 : 0) << value.text() << " at a = " << a << ", b = " << b;
  }
}

}  // namespace
}  // namespace lockstep::worker::host_value_test
