// Checks of indices on a device, whose outcome is known only later: what is told is what the
// interpreter tells, no index touches memory that it should not, and nobody is waited for.
#include <algorithm>
#include <limits>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "graph_builder.h"
#include "on_ranks.h"
#include "worker/trace/function_runs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/tensor/bounded/bounded.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::deferred_checks_test {
namespace {

using shapes::Expr;

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

struct Loaded {
  std::shared_ptr<EmulatedDevice> device = std::make_shared<EmulatedDevice>();
  SystemClock clock;
  std::unique_ptr<Executable> program;

  Loaded(const EmulatedProgram& built, bool recorded) {
    program = Executable::load(built.program, built.units, clock, device).value();
    if (recorded) program->capture({.limit = 1000});
  }
  void expect_agreement(const Inputs& inputs) {
    const auto expected = run_interpreted(program->program().graph, inputs);
    const auto got = run_compiled(*program, inputs);
    ASSERT_EQ(got.has_value(), expected.has_value()) << (got ? expected : got).error().text();
    if (got)
      EXPECT_TRUE(same(*got, *expected, 1e-12));
    else
      EXPECT_EQ(got.error(), expected.error());
  }
};

EmulatedProgram emulated(Graph graph) {
  return build_emulated(generate(std::move(graph), Target::Cuda).value()).value();
}

/// Every way in which data become places: of x, which is stored and of a page's size, of what is
/// computed where it is used, of another list, within what is padded, and to add at.
Graph places_graph(std::int64_t hint) {
  GraphBuilder g("places");
  const Expr n = g.symbol("x.size(0)"), m = g.symbol("list.size(0)");
  const NodeId x = g.input("x", DType::F64, {n}), list = g.input("list", DType::I64, {m});
  const NodeId next = g.input("next", DType::I64, {n});
  g.line(20);
  g.output(g.op(Op::IndexSelect, {x, list}));
  g.output(g.op(Op::IndexSelect, {x, g.op(Op::IndexSelect, {next, list})}));
  g.output(g.op(Op::IndexSelect, {g.pad(g.op(Op::Add, {x, x}), 0, 2, 3), list}));
  g.output(g.pad(g.op(Op::IndexSelect, {g.slice(x, 0, 0, n), list}), 0, 1, 1));
  g.output(g.reduce(Op::Sum, g.op(Op::IndexSelect, {x, list}), {0}));
  g.line(30);
  g.output(g.index_add(list, g.op(Op::IndexSelect, {x, list}), n));
  Graph graph = g.take();
  for (SymbolBinding& binding : graph.symbols) binding.hint = hint;
  return graph;
}

Inputs places_inputs(std::int64_t n, std::vector<std::int64_t> list,
                     std::vector<std::int64_t> next) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  Inputs inputs;
  inputs["x"] = random_array(random, DType::F64, {n});
  const auto length = static_cast<std::int64_t>(list.size());
  inputs["list"] = integers({length}, std::move(list));
  inputs["next"] = integers({n}, std::move(next));
  return inputs;
}

std::vector<std::int64_t> falling(std::int64_t length, std::int64_t limit) {
  std::vector<std::int64_t> out;
  for (std::int64_t k = length; k-- > 0;) out.push_back(limit == 0 ? 0 : k % limit);
  return out;
}

TEST(DeferredChecks, AnyIndexAnywhere_TouchesNoOtherMemory_AndIsTheInterpretersError) {
  // Planned for short lists and for long ones, which many threads look through.
  for (const std::int64_t hint : {5, 40, 3000, 50000}) {
    const EmulatedProgram built = emulated(places_graph(hint));
    for (const bool recorded : {false, true}) {
      SCOPED_TRACE(testing::Message() << "hint " << hint << ", recorded " << recorded);
      Loaded loaded(built, recorded);
      for (const std::int64_t n : {512, 1, 0})  // 512: a page, so that both its ends are seen
        for (const std::int64_t m : {0, 1, 2, 5, 97}) {
          loaded.expect_agreement(places_inputs(n, falling(m, n), falling(n, n)));
          if (m == 0 || n == 0) continue;
          for (const std::int64_t bad : {std::int64_t{-1}, n, n + 1, kLowest, kHighest}) {
            auto list = falling(m, n), next = falling(n, n);
            list[static_cast<std::size_t>(m / 2)] = bad;
            loaded.expect_agreement(places_inputs(n, list, next));
            list.back() = -7;  // a later one is not the one that is told
            loaded.expect_agreement(places_inputs(n, list, next));
            next[static_cast<std::size_t>(falling(m, n)[0])] = bad;
            loaded.expect_agreement(places_inputs(n, falling(m, n), next));
          }
        }
    }
  }
}

TEST(DeferredChecks, LongLists_TheFirstOfManyIsTold) {
  const EmulatedProgram built = emulated(places_graph(50000));
  Loaded loaded(built, false);
  const std::int64_t m = 50001;
  for (const std::int64_t first : {0L, 1L, 31L, 12345L, m - 1}) {
    auto list = falling(m, 512);
    for (std::int64_t k = first; k < m; k += 777) list[static_cast<std::size_t>(k)] = 512 + k;
    loaded.expect_agreement(places_inputs(512, list, falling(512, 512)));
  }
}

/// Look-ups in a table, one after the other's list.
Graph lookups_graph(int count) {
  GraphBuilder g("lookups");
  const Expr n = g.symbol("x.size(0)");
  const NodeId table = g.input("table", DType::F64, {Expr(7), Expr(3)}),
               x = g.input("x", DType::I64, {n});
  NodeId list = x, total = g.op(Op::IndexSelect, {table, list});
  for (int k = 1; k < count; ++k) {
    list = g.op(Op::Mod, {g.op(Op::Add, {list, x}), g.full(DType::I64, {n}, 7)});
    total = g.op(Op::Add, {total, g.op(Op::IndexSelect, {table, list})});
  }
  g.output(g.index_add(list, total, Expr(7)));
  return g.take();
}

TEST(DeferredChecks, HoweverManyLookUps_TheHostWaitsOnce) {
  struct Asked {
    int waits, downloads;
    bool operator==(const Asked&) const = default;
  };
  const auto asked = [](int count, bool recorded) {
    Loaded loaded(emulated(lookups_graph(count)), recorded);
    const Inputs inputs = {{"table", Array::zeros(DType::F64, {7, 3})},
                           {"x", integers({5}, {6, 0, 3, 3, 1})}};
    loaded.expect_agreement(inputs);
    const Asked before{loaded.device->waits(), loaded.device->downloads()};
    const int starts = loaded.device->starts();
    EXPECT_TRUE(run_compiled(*loaded.program, inputs));
    if (recorded) {
      EXPECT_EQ(loaded.device->starts() - starts, 1);
    }
    EXPECT_EQ(loaded.program->captured_graphs(), recorded ? 1U : 0U);
    return Asked{loaded.device->waits() - before.waits,
                 loaded.device->downloads() - before.downloads};
  };
  for (const bool recorded : {false, true}) {
    const Asked one = asked(1, recorded);
    EXPECT_EQ(one.downloads, 1);
    EXPECT_EQ(asked(6, recorded), one);
  }
}

TEST(DeferredChecks, CountsWithABound_CostNoWait) {
  struct Asked {
    int waits, downloads;
    bool operator==(const Asked&) const = default;
  };
  const auto asked = [](const test::Body& body, bool recorded) {
    const Graph graph = test::must(test::traced(
        {{DType::F64, {test::dynamic(9, 1), 3}}, {DType::Bool, {test::dynamic(9, 1)}}}, body));
    Loaded loaded(emulated(graph), recorded);
    std::mt19937_64 random(3);
    const Inputs inputs = test::named(
        {random_array(random, DType::F64, {9, 3}), random_array(random, DType::Bool, {9})});
    loaded.expect_agreement(inputs);
    const Asked before{loaded.device->waits(), loaded.device->downloads()};
    EXPECT_TRUE(run_compiled(*loaded.program, inputs));
    return Asked{loaded.device->waits() - before.waits,
                 loaded.device->downloads() - before.downloads};
  };
  using In = const test::Tensors&;
  for (const bool recorded : {false, true}) {
    // All rows, of which an index is looked up: one outcome of a check comes back.
    const Asked all = asked(
        [](In in) {
          const Tensor last = sum(cast(in[1], DType::I64));
          return test::Tensors{sum(index_select(in[0], 0, minimum(reshape(last, {1}), 0)))};
        },
        recorded);
    const Asked bounded = asked(
        [](In in) { return test::Tensors{sum(select_rows(in[0], in[1], at_most(9)).values)}; },
        recorded);
    const Asked often = asked(
        [](In in) {
          const Bounded rows = select_rows(in[0], in[1], at_most(9)),
                        each = masked_select(in[0], in[0] > 0.0, at_most(27));
          return test::Tensors{rows.values, each.values, present(rows),
                               nonzero(in[1], at_most(12)).values};
        },
        recorded);
    const Asked counted = asked([](In in) { return test::Tensors{in[0][in[1]]}; }, recorded);
    EXPECT_EQ(bounded, all);
    EXPECT_EQ(often, all);
    EXPECT_GT(counted.waits, all.waits);
  }
}

/// Rows of n to segments by `segments` counts. `read`: which the host reads, too.
Graph segments_graph(std::int64_t segments, bool read) {
  GraphBuilder g("segments");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n}),
               counts = g.input("counts", DType::I64, {Expr(segments)});
  const NodeId twice = g.op(Op::Add, {counts, counts});
  g.line(20);
  const NodeId ids = g.segment_ids(twice, n);
  g.output(ids);
  g.output(g.op(Op::IndexSelect, {x, ids}));
  if (read) (void)g.read(Op::ToList, twice);
  g.output(g.op(Op::Cumsum, {x}));
  return g.take();
}

TEST(DeferredChecks, CountsThatNobodyReads_AreCheckedWithoutAWait) {
  const EmulatedProgram built = emulated(segments_graph(4, false));
  for (const bool recorded : {false, true}) {
    Loaded loaded(built, recorded);
    for (const std::int64_t n : {0, 6, 512})
      for (const std::vector<std::int64_t>& counts : {std::vector<std::int64_t>{0, 0, 0, 0},
                                                      {1, 0, 2, 0},
                                                      {0, 0, 0, 256},
                                                      {-1, 3, 1, 0},
                                                      {0, 0, 0, kHighest / 2},
                                                      {kLowest / 2, 3, kHighest / 2, 1},
                                                      {3, 0, 1, -1}}) {
        Inputs inputs = {{"x", Array::zeros(DType::F64, {n})}};
        inputs["counts"] = integers({4}, counts);
        const int before = loaded.device->downloads();
        loaded.expect_agreement(inputs);
        EXPECT_LE(loaded.device->downloads() - before, 1 + 3);  // outcomes, then what is compared
      }
  }
}

TEST(DeferredChecks, CountsThatTheHostReadsOrAreTooManyToTell_AreCheckedThere) {
  const auto deferred = [](std::int64_t segments, bool read) {
    const Program program = generate(segments_graph(segments, read), Target::Cuda).value();
    const auto check = std::ranges::find(program.steps, Step::Kind::CountsCheck, &Step::kind);
    return check->deferred();
  };
  EXPECT_TRUE(deferred(1, false));
  EXPECT_TRUE(deferred(1024, false));
  EXPECT_FALSE(deferred(1025, false));
  EXPECT_FALSE(deferred(4, true));
}

/// Of whose failure no other rank learns; counts what goes to them.
class UntoldHost final : public RunHost, public collectives::DeviceData {
 public:
  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    return mine ? Result<void>(mine->status) : Result<void>();
  }
  [[nodiscard]] bool reaches_all() const override { return false; }
  collectives::DeviceData* device_data(std::string_view) override { return this; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<void> start(const collectives::Collective&) override {
    ++sent;
    return {};
  }
  [[nodiscard]] Result<void> poll() override { return {}; }
  void abort() override {}
  int sent = 0;

 private:
  std::string name_ = "nobody";
};

TEST(DeferredChecks, WherePeersCannotBeTold_NothingThatMayBeWrongIsSent) {
  GraphBuilder g("sent");
  const NodeId v = g.input("v", DType::F64, {Expr(8)}),
               list = g.input("list", DType::I64, {Expr(8)});
  g.output(g.collective(Op::AllReduce, g.op(Op::IndexSelect, {v, list}), 0));
  const EmulatedProgram built = emulated(g.take());
  for (const bool recorded : {false, true})
    for (const std::int64_t last : {7, 8}) {
      Loaded loaded(built, recorded);
      UntoldHost host;
      Inputs inputs = {{"v", Array::zeros(DType::F64, {8})}};
      inputs["list"] = integers({8}, {0, 1, 2, 3, 4, 5, 6, last});
      run_alone([&](collectives::Communicator& communicator, RunHost&) {
        EXPECT_EQ(loaded.program->run(inputs, communicator, host).has_value(), last < 8);
      });
      EXPECT_EQ(host.sent, last < 8 ? 1 : 0);
    }
}

/// A random program on v, 8 doubles per rank, with lists that look up, asserts and collectives.
struct RandomChecks {
  enum class Kind { Select, Chain, Add, Read, Assert, Counts, Reduce, Gather };
  std::vector<Kind> kinds;
  int ranks;

  RandomChecks(std::mt19937_64& random, int size) : ranks(size) {
    for (std::size_t n = 4 + random() % 5; n > 0; --n)
      kinds.push_back(static_cast<Kind>(random() % 8));
  }
  [[nodiscard]] static std::string list(std::size_t i) { return "list" + std::to_string(i); }

  [[nodiscard]] Graph graph() const {
    GraphBuilder g("checks");
    NodeId v = g.input("v", DType::F64, {Expr(8)});
    std::vector<NodeId> lists;
    for (std::size_t i = 0; i < kinds.size(); ++i)
      lists.push_back(g.input(list(i), DType::I64, {Expr(8)}));
    const Expr flag = greatest(g, g.input(list(kinds.size()), DType::I64, {Expr(8)}));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      g.line(10 + static_cast<std::uint32_t>(i));
      v = made(g, kinds[i], v, lists[i], flag);
    }
    g.output(v);
    return g.take();
  }
  static Expr greatest(GraphBuilder& g, NodeId list) {
    return g.read(Op::Item, g.reduce(Op::Amax, list, {0}))[0];
  }
  NodeId made(GraphBuilder& g, Kind kind, NodeId v, NodeId of, const Expr& flag) const {
    switch (kind) {
      case Kind::Select:
        return g.op(Op::IndexSelect, {v, of});
      case Kind::Chain:
        return g.op(Op::IndexSelect, {v, g.op(Op::IndexSelect, {of, of})});
      case Kind::Add:
        return g.index_add(of, v, Expr(8));
      case Kind::Read:
        g.check(shapes::less_equal(greatest(g, of), 7), "numbers are small");
        return v;
      case Kind::Assert:  // the host has known it since the beginning
        g.check(shapes::less_equal(flag, 7), "the flag is small");
        return v;
      case Kind::Counts: {  // one each, of what is small
        const auto full = [&](double value) { return g.full(DType::I64, {Expr(8)}, value); };
        const NodeId counts = g.op(Op::Maximum, {full(1), g.op(Op::Sub, {of, full(6)})});
        return g.op(Op::IndexSelect, {v, g.segment_ids(counts, Expr(8))});
      }
      case Kind::Reduce:
        return g.op(Op::Add, {v, g.collective(Op::AllReduce, v, 2)});
      case Kind::Gather:
        return g.reduce(Op::Amax,
                        g.reshape(g.collective(Op::AllGather, v, ranks), {Expr(ranks), Expr(8)}),
                        {0});
    }
    return v;
  }

  [[nodiscard]] std::vector<Inputs> inputs(std::mt19937_64& random, int spoilt) const {
    std::vector<Inputs> out(static_cast<std::size_t>(ranks));
    for (Inputs& mine : out) {
      mine["v"] = random_array(random, DType::F64, {8});
      for (std::size_t i = 0; i <= kinds.size(); ++i) mine[list(i)] = random_indices(random, 8, 8);
    }
    for (; spoilt > 0; --spoilt) {
      Array& one = out[random() % out.size()][list(random() % (kinds.size() + 1))];
      const std::int64_t bad[] = {-1, 8, kLowest, kHighest, 9};
      one.data_as<std::int64_t>()[random() % 8] = bad[random() % 5];
    }
    return out;
  }
};

TEST(DeferredChecks, RandomProgramsWithSeveralThatFail_AreJointAsInterpreted) {
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const int ranks = 1 + static_cast<int>(seed % 4);
    const RandomChecks program(random, ranks);
    OnRanks on_ranks(program.graph(), ranks);
    for (int spoilt : {0, 1, 1, 1, 2, 2, 3, 5, 8}) {
      const auto run = on_ranks.everywhere(program.inputs(random, spoilt));
      failed += run.ranks[0]->has_error();
      for (const auto& rank : run.ranks) ASSERT_EQ(rank->has_error(), run.ranks[0]->has_error());
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(failed, 40);
}

}  // namespace
}  // namespace lockstep::worker::deferred_checks_test
