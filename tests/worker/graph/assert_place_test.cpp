// Where the asserts of a graph stand, and that they say what was checked: random programs that read
// values back and check relations of them, against every point of a window.
#include <random>

#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::assert_place_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using test::setup;

constexpr std::uint64_t kSeed = 20261121;

/// One traced program: the symbols that it reads, and what it checked of them.
struct Program {
  Result<Graph> graph = Status{};
  std::vector<shapes::Predicate> checks;
};

/// A relation of one to three of the values, as often one that a symbol can be solved for as not.
SymBool random_check(std::mt19937_64& random, const std::vector<SymInt>& values) {
  SymInt sum = static_cast<std::int64_t>(random() % 7) - 3;
  for (std::uint64_t n = random() % 3 + 1; n > 0; --n) {
    const SymInt& value = values[random() % values.size()];
    const std::int64_t c = static_cast<std::int64_t>(random() % 5) - 2;
    sum = random() % 4 == 0 ? sum + c * value * values[random() % values.size()] : sum + c * value;
  }
  switch (random() % 4) {
    case 0:
      return sum != 0;
    case 1:
      return sum % 2 == 0;
    case 2:
      return sum <= 4;
    default:
      return sum >= -4;
  }
}

Program random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Decision decision = DecisionBuilder()
                                .tensor("counts", DType::I64, {2})
                                .tensor("x", DType::I64, {dynamic(3, 0)})
                                .get();
  Program program;
  program.graph = trace(setup(decision, 2), [&](Trace& t) {
    Tensor counts = t.tensor_input(0), x = t.tensor_input(1);
    std::vector<SymInt> values{x.size(0)};
    for (int step = 0; step < 8 && values.size() < 5; ++step) {
      switch (random() % 5) {
        case 0:
          values.push_back(item(sum(x)));
          x = x + 1;
          break;
        case 1:
          for (const SymInt& value : tolist(counts)) values.push_back(value);
          break;
        case 2:
          counts = all_to_all_single(counts + 1);
          break;
        case 3:
          x = x * 2;
          break;
        default:
          break;
      }
      for (std::uint64_t n = random() % 3; n > 0; --n) {
        const SymBool asked = random_check(random, values);
        check(asked);
        program.checks.push_back(asked.predicate());
      }
    }
    t.output("x", x);
  });
  return program;
}

/// Between the node that gives the last of its symbols and the assert stand asserts only.
void expect_right_behind(const Graph& graph, NodeId assert, std::uint64_t seed) {
  NodeId giver = 0;
  const auto symbols = graph.nodes[assert].asserts.at(0).predicate.expr.symbols();
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const auto& binds = graph.nodes[id].binds;
    const bool gives = std::any_of(symbols.begin(), symbols.end(), [&](shapes::Symbol symbol) {
      return std::find(binds.begin(), binds.end(), symbol) != binds.end();
    });
    if (gives || graph.nodes[id].op == Op::Input) giver = std::max(giver, id);
  }
  ASSERT_LT(giver, assert) << "seed " << seed << "\n" << graph.text();
  for (NodeId id = giver + 1; id < assert; ++id)
    ASSERT_EQ(graph.nodes[id].op, Op::Assert) << "seed " << seed << "\n" << graph.text();
}

TEST(AssertPlace, RandomPrograms_AssertRightBehindTheLastValue_AndNoMoreOrLessThanWasChecked) {
  int traced = 0, asserts = 0, proven = 0, refused = 0;
  std::int64_t points = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 3000; ++seed) {
    const Program program = random_program(seed);
    if (!program.graph) {
      ++refused;  // what was checked is never true at the hint, or together
      continue;
    }
    ++traced;
    const Graph& graph = *program.graph;
    std::vector<shapes::Predicate> asserted;
    std::set<shapes::Symbol> symbols;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (graph.nodes[id].op != Op::Assert) continue;
      ASSERT_NO_FATAL_FAILURE(expect_right_behind(graph, id, seed));
      asserted.push_back(graph.nodes[id].asserts.at(0).predicate);
    }
    asserts += static_cast<int>(asserted.size());
    proven += static_cast<int>(program.checks.size() - asserted.size());
    for (const std::vector<shapes::Predicate>& list : {program.checks, asserted})
      for (const shapes::Predicate& p : list)
        for (const shapes::Symbol symbol : p.expr.symbols()) symbols.insert(symbol);
    const std::vector<shapes::Symbol> order(symbols.begin(), symbols.end());
    std::vector<std::int64_t> at(order.size(), -2);
    const auto value = [&](shapes::Symbol symbol) -> std::optional<std::int64_t> {
      return at[static_cast<std::size_t>(std::find(order.begin(), order.end(), symbol) -
                                         order.begin())];
    };
    const auto all_hold = [&](const std::vector<shapes::Predicate>& list) {
      return std::all_of(list.begin(), list.end(),
                         [&](const auto& p) { return p.evaluate(value).value_or(false); });
    };
    for (bool more = !order.empty(); more;) {
      const bool within = std::none_of(order.begin(), order.end(), [&](shapes::Symbol symbol) {
        return !symbol.unbacked && *value(symbol) < 0;  // a size
      });
      if (within) {
        ++points;
        ASSERT_EQ(all_hold(asserted), all_hold(program.checks)) << "seed " << seed << "\n"
                                                                << graph.text();
      }
      more = false;
      for (std::size_t i = 0; i < at.size() && !more; ++i) {
        more = at[i] < 4;
        at[i] = more ? at[i] + 1 : -2;
      }
    }
  }
  std::printf(
      "seeds from %llu: %d programs, %d asserts, %d checks proven, %d refused, %lld points\n",
      static_cast<unsigned long long>(kSeed), traced, asserts, proven, refused,
      static_cast<long long>(points));
  EXPECT_GT(traced, 1000);
  EXPECT_GT(asserts, 1000);
  EXPECT_GT(proven, 100);
}

}  // namespace
}  // namespace lockstep::worker::assert_place_test
