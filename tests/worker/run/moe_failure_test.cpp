// The training step of the mixture-of-experts example fails at each of its nodes on each rank: all
// ranks return that error, and it takes one status round.
#include <algorithm>
#include <random>

#include "joint_error.h"
#include "moe_text/model.h"
#include "tracing.h"

namespace lockstep::worker::moe_failure_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;

/// The training step of the mixture-of-experts example, small: graph and inputs of every rank.
class MoeStep {
 public:
  explicit MoeStep(int ranks) : ranks_(ranks), shapes_(shapes(kExperts / ranks)) {}

  [[nodiscard]] Graph graph() const {
    DecisionBuilder decision;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      std::vector<test::Dim> dims;
      for (const std::int64_t size : shapes_[i]) dims.emplace_back(size);
      decision.tensor(numbered(i, "p"), DType::F64, dims);
    }
    decision.tensor("rows", DType::I64, {dynamic(5, 0)})
        .tensor("targets", DType::I64, {dynamic(5, 0)})
        .tensor("tokens", DType::I64, {dynamic(2, 0), dynamic(3, 0)});
    auto made = trace(test::setup(decision.get(), ranks_), [&](Trace& t) {
      moe_text::Parameters p;
      for (std::size_t i = 0; i < shapes_.size(); ++i)
        *p.all()[i] = t.tensor_input(t.source(numbered(i, "p")));
      const moe_text::Batch batch{t.tensor_input(t.source("tokens")),
                                  t.tensor_input(t.source("rows")),
                                  t.tensor_input(t.source("targets"))};
      moe_text::Measures measures;
      const auto found = moe_text::gradients(p, batch, ranks_, measures);
      t.output("loss", measures.loss);
      for (std::size_t i = 0; i < found.size(); ++i) t.output(numbered(i, "g"), found[i]);
    });
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : Graph{};
  }

  [[nodiscard]] std::vector<Inputs> inputs() const {
    std::vector<Inputs> out;
    for (int r = 0; r < ranks_; ++r) {
      std::mt19937_64 random(static_cast<std::uint64_t>(r) + 1), shared(9);
      Inputs in;
      for (std::size_t i = 0; i < shapes_.size(); ++i)
        in[numbered(i, "p")] = random_array(i < 11 ? shared : random, DType::F64, shapes_[i]);
      const std::int64_t lines = r, width = 2 + r, cells = lines * width;
      in["tokens"] = random_indices(random, cells, kTokens).reshaped({lines, width});
      in["rows"] = random_indices(random, cells > 0 ? 5 : 0, cells);
      in["targets"] = random_indices(random, cells > 0 ? 5 : 0, kTokens);
      out.push_back(std::move(in));
    }
    add_rank(out);
    return out;
  }

 private:
  static constexpr std::int64_t kTokens = 7, kWidth = 4, kHidden = 3, kExperts = 4, kPositions = 6;
  static std::vector<std::vector<std::int64_t>> shapes(std::int64_t here) {
    return {{kTokens, kWidth},
            {kPositions, kWidth},
            {kWidth},
            {kWidth, kWidth},
            {kWidth, kWidth},
            {kWidth, kWidth},
            {kWidth, kWidth},
            {kWidth},
            {kWidth, kExperts},
            {kWidth},
            {kWidth, kTokens},
            {here, kWidth, kHidden},
            {here, kHidden, kWidth}};
  }
  int ranks_;
  std::vector<std::vector<std::int64_t>> shapes_;  // of the parameters
};

/// The graph with one more assert before node `at`, which fails on a rank whose input "trip" is 1.
Graph with_trip(Graph graph, NodeId at) {
  Node node;
  node.op = Op::Assert;
  node.meta = {DType::I64, {}};
  std::uint32_t serial = 0;
  for (const SymbolBinding& binding : graph.symbols)
    serial = std::max(serial, binding.symbol.serial + 1);
  const shapes::Symbol trip{false, serial};
  graph.symbols.push_back({trip, "trip", 0});
  node.asserts = {{shapes::equal(shapes::Expr::symbol(trip), 0), {"trip.cpp", at}, "tripped"}};
  graph.nodes.insert(graph.nodes.begin() + at, node);
  const auto moved = [at](NodeId id) { return id >= at ? id + 1 : id; };
  for (Node& other : graph.nodes)
    for (NodeId& input : other.inputs) input = moved(input);
  for (Graph::Output& output : graph.outputs) output.node = moved(output.node);
  EXPECT_TRUE(graph.verify()) << graph.verify().error().text();
  return graph;
}

TEST(TrainingStep, SettlesOnceAndNoCollectiveWaitsForAWord) {
  for (const int ranks : {1, 2, 4}) {
    const MoeStep step(ranks);
    OnRanks on_ranks(step.graph(), ranks);
    const auto run =
        ranks == 2 ? on_ranks.everywhere(step.inputs()) : on_ranks.interpreted(step.inputs());
    for (const auto& rank : run.ranks) ASSERT_TRUE(rank->has_value()) << rank->error().text();
    EXPECT_EQ(run.rounds, 1) << ranks;
    EXPECT_EQ(run.collectives, 10) << ranks;
  }
}

TEST(TrainingStep, FailsAtEachNodeOnEachRank_Jointly) {
  int compiled = 0;
  for (const int ranks : {2, 4}) {
    const MoeStep step(ranks);
    const Graph graph = step.graph();
    for (NodeId at = 0; at < graph.nodes.size(); ++at) {
      if (graph.nodes[at].op == Op::Input || (ranks == 4 && at % 5 != 0)) continue;
      OnRanks on_ranks(with_trip(graph, at), ranks);
      for (int bad = 0; bad < ranks; ++bad) {
        auto inputs = step.inputs();
        for (int r = 0; r < ranks; ++r)
          inputs[static_cast<std::size_t>(r)]["trip"] = integers({}, {r == bad ? 1 : 0});
        const bool both = ranks == 2 && at % 67 == 0;
        compiled += both;
        const auto run = both ? on_ranks.everywhere(inputs) : on_ranks.interpreted(inputs);
        ASSERT_TRUE(joint(run, RankSet::of(Rank{bad}))) << "rank " << bad << " at node " << at;
        EXPECT_NE(run.ranks[0]->error().message.find("tripped"), std::string::npos);
        EXPECT_LE(run.rounds, 1);
      }
    }
  }
  EXPECT_GE(compiled, 6);
}

}  // namespace
}  // namespace lockstep::worker::moe_failure_test
