// Collectives over groups that overlap: what is traced, refused and computed, ranks as threads.
#include <functional>
#include <map>

#include "compiled_graph.h"
#include "group_program.h"
#include "thread_group.h"
#include "tracing.h"

#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>

namespace lockstep::worker::group_collectives_test {
namespace {

using test::DecisionBuilder;

RankSet set(std::initializer_list<int> ranks) {
  RankSet out;
  for (const int r : ranks) out.insert({r, r});
  return out;
}

const Decision& vector_of(std::int64_t width) {
  static std::map<std::int64_t, Decision> decisions;
  return decisions.try_emplace(width, DecisionBuilder().tensor("x", DType::F64, {width}).get())
      .first->second;
}

TraceSetup setup_for(std::int64_t width, const Group& frames) {
  return {
      .frame = "step", .decision = vector_of(width), .group_size = frames.size(), .group = frames};
}

Result<Graph> traced(const Group& frames, const std::function<Tensor(Tensor)>& body,
                     std::int64_t width = 4) {
  return trace(setup_for(width, frames),
               [&](Trace& t) { t.output("y", body(t.tensor_input(t.source("x")))); });
}

const Group kAll{"", RankSet::all(4), {}};

TEST(GroupCollectives, TextNamesTheGroupAndNeverItsRanks) {
  const auto body = [](const Group& group) {
    return [group](Tensor x) { return all_reduce(x, collectives::Reduce::Sum, group); };
  };
  const Group low{"tensor", set({0, 1}), Rank{0}}, high{"tensor", set({2, 3}), Rank{1}};
  const Graph one = traced(kAll, body(low)).value(), other = traced(kAll, body(high)).value();
  EXPECT_EQ(one.fingerprint(), other.fingerprint());
  EXPECT_EQ(one.collectives_fingerprint(), other.collectives_fingerprint());
  EXPECT_EQ(one.node_text(1), "%1: f64[4] = all_reduce(%0, group \"tensor\", {0})");
  const Graph frames = traced(kAll, body({})).value();
  EXPECT_NE(frames.fingerprint(), one.fingerprint());
  EXPECT_NE(frames.collectives_fingerprint(), one.collectives_fingerprint());
  // The frame's own group goes without its name: the graph is that of any frame.
  EXPECT_EQ(traced(low, body(low)).value().fingerprint(), frames.fingerprint());
}

TEST(GroupCollectives, SizesAreThoseOfTheGroup) {
  const Group pair{"pair", set({1, 3}), Rank{0}};
  const Graph graph = traced(kAll, [&](Tensor x) {
                        const Tensor wide = all_gather(x, pair);
                        EXPECT_EQ(wide.size(0), 8);
                        EXPECT_EQ(all_gather(x).size(0), 16);
                        return reduce_scatter(wide, pair);
                      }).value();
  EXPECT_TRUE(graph.verify());
  const auto root = traced(kAll, [&](Tensor x) { return broadcast(x, Rank{2}, pair); });
  ASSERT_FALSE(root);
  EXPECT_NE(root.error().message.find("there is no rank 2 in a group of 2"), std::string::npos)
      << root.error().message;
}

TEST(GroupCollectives, RanksThatDoNotAgreeOnTheFrame_AreRefused) {
  const Group tensor{"tensor", set({0, 1}), Rank{0}}, data{"data", set({0, 2}), Rank{0}};
  const auto refused =
      traced(tensor, [&](Tensor x) { return all_reduce(x, collectives::Reduce::Sum, data); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::TraceError);
  EXPECT_NE(refused.error().message.find(
                "group data [0,2] has ranks 2, which are not of group tensor [0-1], whose ranks "
                "agree on this frame"),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("group_collectives_test.cpp:"), std::string::npos);
  const auto outsider = traced(kAll, [](Tensor x) { return all_gather(x, {"other", {}, {}}); });
  ASSERT_FALSE(outsider);
  EXPECT_NE(outsider.error().message.find("this rank is in no set of group other"),
            std::string::npos)
      << outsider.error().message;
}

TEST(GroupCollectives, GradientsStayInTheGroup) {
  const Group pair{"pair", set({0, 2}), Rank{0}};
  const Graph graph = traced(kAll, [&](Tensor x) {
                        const Tensor y = all_to_all_single(
                            reduce_scatter(all_gather(all_reduce(x, {}, pair), pair), pair), pair);
                        return grad(sum(y * y), {x})[0];
                      }).value();
  int collectives = 0;
  for (const Node& node : graph.nodes) {
    if (op_row(node.op).kind != OpClass::Collective) continue;
    ++collectives;
    EXPECT_EQ(node.text, "pair") << graph.text();
  }
  EXPECT_EQ(collectives, 8);
}

/// Every rank's run of its own trace on threads.
std::vector<std::vector<double>> run_on_threads(const GroupProgram& program, int size,
                                                bool compiled) {
  ThreadGroup threads(size);
  std::map<std::string, std::vector<std::vector<int>>> sets;
  for (const auto& [name, layout] : program.layouts())
    for (const RankSet& one : layout) {
      std::vector<int> members;
      for (const RankSet::Run& run : one.runs())
        for (std::int32_t r = run.first; r <= run.last; ++r) members.push_back(r);
      threads.declare(name, members);
    }
  std::vector<Graph> graphs;
  std::vector<std::unique_ptr<Executable>> executables;
  for (int r = 0; r < size; ++r) {
    std::map<std::string, Group> groups;
    for (const auto& [name, layout] : program.layouts()) groups[name] = program.group_of(name, r);
    graphs.push_back(traced(
                         {"", RankSet::all(size), Rank{r}},
                         [&](Tensor x) { return program.traced(x, groups); }, program.width())
                         .value());
    EXPECT_EQ(graphs.back().fingerprint(), graphs.front().fingerprint()) << "rank " << r;
    if (compiled) executables.push_back(compile(graphs.back()));
  }
  std::vector<std::vector<double>> out(static_cast<std::size_t>(size));
  threads.run([&](collectives::Communicator& communicator, RunHost& host) {
    const int r = communicator.rank().value;
    const auto i = static_cast<std::size_t>(r);
    Inputs inputs;
    const auto number = [](int value) {
      const std::vector<double> one{static_cast<double>(value)};
      return Array::of(DType::I64, {}, one);
    };
    inputs["x"] = Array::of(DType::F64, {program.width()}, program.input(r));
    inputs[rank_source("")] = number(r);
    for (const auto& [name, layout] : program.layouts())
      inputs[rank_source(name)] = number(program.group_of(name, r).rank.value);
    const auto result = compiled ? executables[i]->run(inputs, communicator, host)
                                 : interpret(graphs[i], inputs, communicator, host);
    EXPECT_TRUE(result) << result.error().text();
    if (!result) return;
    for (std::int64_t k = 0; k < program.width(); ++k) out[i].push_back((*result)[0].at(k));
  });
  return out;
}

TEST(GroupCollectives, RandomOverlappingGroups_GiveWhatPlainLoopsGive) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const int size = 1 + static_cast<int>(seed % 6);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const GroupProgram program(size, seed);
    EXPECT_EQ(run_on_threads(program, size, false), program.expected());
  }
}

TEST(GroupCollectives, CompiledProgram_TakesTheSameGroups) {
  for (const unsigned seed : {3U, 9U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GroupProgram program(4, seed);
    EXPECT_EQ(run_on_threads(program, 4, true), program.expected());
  }
}

}  // namespace
}  // namespace lockstep::worker::group_collectives_test
