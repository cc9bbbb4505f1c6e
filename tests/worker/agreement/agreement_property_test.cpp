// Random jobs of 1 to 9 ranks: whatever the inputs, marks, failures and configurations, all ranks
// end each call alike, hold the same past, and a call comes to its end.
#include <random>

#include "naive_exchange.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::worker::agreement_property_test {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
}
bool rarely(Random& random) { return below(random, 12) == 0; }

/// What all ranks of a call have in common but for rare deviations.
struct Theme {
  std::vector<std::int64_t> x;
  bool has_n, flag;
  DType dtype;
};

Theme random_theme(Random& random) {
  Theme theme{{}, below(random, 4) != 0, below(random, 3) == 0, DType::F32};
  for (int d = below(random, 3); d >= 0; --d) theme.x.push_back(below(random, 5));
  if (rarely(random)) theme.dtype = DType::I64;
  return theme;
}

Inputs random_inputs(Random& random, const Theme& theme) {
  std::vector<std::int64_t> x = theme.x;
  for (auto& size : x)
    if (below(random, 4) == 0) size = below(random, 5);
  if (rarely(random) && rarely(random)) x.push_back(3);
  const std::size_t dims = x.size();
  Inputs in;
  in.real("lr").boolean("flag", theme.flag != (rarely(random) && rarely(random)));
  in.tensor("x", std::move(x), rarely(random) && rarely(random) ? DType::U8 : theme.dtype);
  for (std::size_t d = 0; d < dims; ++d)
    if (rarely(random)) in.mark("x", d, static_cast<Mark>(below(random, 6)));
  if (theme.has_n != (rarely(random) && rarely(random))) in.integer("n", below(random, 3));
  return in;
}

DecisionConfig random_config(Random& random) {
  return {.consistency = static_cast<Consistency>(below(random, 3)),
          .automatic_dynamic = below(random, 4) != 0,
          .assume_at_least_two = below(random, 3) != 0,
          .recompile_limit = 1 + below(random, 8),
          .settle = below(random, 2) == 0};
}

/// A trace that branches on its first backed symbol, now and then differs, now and then fails.
void add_faults(VirtualRanks& ranks, Random& random) {
  ranks.tracer = [&random](Rank rank, const Decision& decision) {
    TraceReport report;
    report.graph = report.collectives = {1, 1};
    if (rarely(random) && rarely(random))
      report.failure = Status{Code::TraceError, "fails on " + std::to_string(rank.value), "", {}};
    if (rarely(random) && rarely(random)) report.graph.low = 2;
    if (rarely(random) && rarely(random)) report.collectives.low = 2;
    if (!decision.symbols.empty() && !decision.symbols[0].unbacked) {
      const auto small = shapes::less(shapes::Expr::symbol({false, 0}), 3);
      report.guards = {{decision.symbols[0].hint < 3 ? small : small.negated(), {"t.cpp", 7}}};
    }
    return report;
  };
  ranks.compiler = [&random](Rank) {
    return rarely(random) && rarely(random)
               ? std::optional(Status{Code::CompileError, "the compiler rejects it", "", {}})
               : std::nullopt;
  };
}

void expect_same_past(VirtualRanks& ranks, const DecisionConfig& config) {
  const CodeCache& first = ranks.frame(0);
  for (int r = 0; r < ranks.size(); ++r) {
    const CodeCache& frame = ranks.frame(r);
    ASSERT_EQ(frame.state, first.state);
    ASSERT_EQ(frame.digest(), first.digest());
    ASSERT_EQ(frame.entries.size(), first.entries.size());
    for (std::size_t e = 0; e < frame.entries.size(); ++e) {
      ASSERT_EQ(frame.entries[e].reported, first.entries[e].reported);
      ASSERT_EQ(frame.entries[e].superseded, first.entries[e].superseded);
      if (config.consistency == Consistency::SameGraph) {
        ASSERT_EQ(frame.entries[e].decision, first.entries[e].reported);
      }
    }
  }
}

TEST(Agreement, RandomJobs_AllRanksEndAlikeAndHoldTheSamePast) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const DecisionConfig config = random_config(random);
    VirtualRanks ranks(1 + below(random, 9), config);
    if (seed % 2 == 0) add_faults(ranks, random);
    for (int call = 0; call < 12; ++call) {
      const Theme theme = random_theme(random);
      std::vector<Inputs> inputs;
      std::vector<std::string> frames;
      const bool mixed = rarely(random) && rarely(random);
      for (int r = 0; r < ranks.size(); ++r) {
        inputs.push_back(random_inputs(random, theme));
        frames.push_back(mixed && below(random, 2) == 0 ? "g" : "f");
      }
      const auto outcomes = ranks.call(frames, inputs);
      for (const CallOutcome& outcome : outcomes) {
        ASSERT_EQ(outcome.kind, outcomes[0].kind);
        ASSERT_EQ(outcome.entry, outcomes[0].entry);
        ASSERT_EQ(outcome.error, outcomes[0].error);
      }
      ASSERT_LE(ranks.frame(0).live(), config.recompile_limit);
      if (outcomes[0].kind == CallOutcome::Kind::Reused && ranks.frame(0).live() > 0 && !mixed) {
        for (int r = 0; r < ranks.size(); ++r)
          ASSERT_TRUE(ranks.frame(r).entries[static_cast<std::size_t>(outcomes[0].entry)].fits(
              inputs[static_cast<std::size_t>(r)].build()));
      }
      const auto& error = outcomes[0].error;
      ++seen[error ? std::string(code_name(error->code)) : outcome_text(outcomes[0]).substr(0, 6)];
      if (!mixed) expect_same_past(ranks, config);
      if (testing::Test::HasFailure()) return;
    }
  }
  // The jobs are of use only if they come through every kind of end.
  for (const char* what :
       {"reused", "compil", "fallba", "FRAME_MISMATCH", "SOURCE_MISMATCH", "DTYPE_MISMATCH",
        "NDIM_MISMATCH", "CONSTANT_MISMATCH", "MARK_CONFLICT", "CONSTRAINT_VIOLATION",
        "TRACE_ERROR", "GRAPH_DIVERGENCE", "BRANCH_DIVERGENCE", "COMPILE_ERROR"})
    EXPECT_GT(seen[what], 0) << what;
}

/// What the traces of one call have in common: they ask "on some rank", need a size alike, have
/// nodes, differ, fail.
struct Traces {
  bool ask, guard, differ, fail;
  int need;  // 0: none; 1, 2: the first, the last symbol
  std::uint64_t skeletons;
  int nodes;
};

Traces random_traces(Random& random) {
  return {.ask = below(random, 2) == 0,
          .guard = rarely(random),
          .differ = rarely(random),
          .fail = rarely(random),
          .need = below(random, 3),
          .skeletons = random() % 2,
          .nodes = below(random, 4)};
}

TraceReport trace_of(const Traces& all, Rank rank, const Decision& decision) {
  TraceReport report;
  report.graph = report.collectives = {decision.symbols.size(), 1};
  report.skeleton = {1, 1 + (rank.value == 0 ? all.skeletons : 0)};
  const std::uint64_t own = all.differ ? static_cast<std::uint64_t>(rank.value) : 0;
  for (int node = 0; node < all.nodes; ++node)
    report.prefixes.push_back({static_cast<std::uint64_t>(node), node == 0 ? 0 : own});
  report.graph.low += own, report.collectives.low += own;
  if (all.fail && rank.value == 0) report.failure = Status{Code::TraceError, "fails"};
  if (decision.symbols.empty() || decision.symbols[0].unbacked) return report;
  const shapes::Expr first = shapes::Expr::symbol({false, 0});
  const auto small = shapes::less(first, 3);
  if (all.guard) report.guards = {{small, {"t.cpp", 7}}};
  if (all.ask) report.group_guards = {{small, GroupGuard::Over::Any, true, {}}};
  const std::vector<shapes::Symbol> symbols = decision.trace_symbols();
  const shapes::Symbol needed = all.need == 1 ? symbols.front() : symbols.back();
  if (all.need != 0)
    report.uniform = {{shapes::Expr::symbol(needed), "", "all_gather", {"t.cpp", 2}}};
  return report;
}

/// What goes wrong now and then besides: a rank that has lost its entries or names, or is in
/// another round, and bytes that no rank sends.
void disturb(VirtualRanks& ranks, Random& random) {
  CodeCache& last = ranks.frame(ranks.size() - 1);
  if (rarely(random)) last.forget_names();
  if (rarely(random)) last = CodeCache("f");
  ranks.on_vote = [&random](collectives::Vote& result) {
    if (rarely(random)) result.words[1] = ~result.words[1];
  };
  ranks.on_payload = [&random](Bytes& payload) {
    if (rarely(random) && rarely(random)) payload.resize(payload.size() / 2);
  };
}

TEST(CallStages, RandomJobs_TakeEveryArrowOfTheTable) {
  std::set<std::pair<CallStage, CallStage>> taken;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const DecisionConfig config = random_config(random);
    VirtualRanks ranks(1 + below(random, 4), config);
    Traces traces{};
    ranks.tracer = [&](Rank rank, const Decision& decision) {
      return trace_of(traces, rank, decision);
    };
    if (seed % 3 == 0) add_faults(ranks, random);
    for (int call = 0; call < 12; ++call) {
      traces = random_traces(random);
      if (config.consistency == Consistency::SharedSizes) traces.need = 0;  // it is refused there
      if (seed % 3 == 1) disturb(ranks, random);
      const Theme theme = random_theme(random);
      std::vector<Inputs> inputs;
      for (int r = 0; r < ranks.size(); ++r) inputs.push_back(random_inputs(random, theme));
      (void)ranks.call(inputs);
      if (testing::Test::HasFailure()) return;
    }
    taken.merge(ranks.followed);
  }
  for (const CallStageRow& row : kCallStages)
    for (const CallStageRow& next : kCallStages) {
      // A joint observation that lacks a source of this rank, which no payload does that can be
      // read.
      const bool lacking = next.stage == CallStage::Verify && row.asks != kAction<action::Trace> &&
                           row.stage != CallStage::Hints;
      if (lacking) continue;
      EXPECT_EQ(taken.contains({row.stage, next.stage}), row.leads_to(next.stage))
          << "from " << static_cast<int>(row.stage) << " to " << static_cast<int>(next.stage);
    }
}

TEST(Agreement, TheSameJobTwice_LogsTheSameActionsByteForByte) {
  const auto log_of = [](std::uint64_t seed) {
    Random random(seed);
    VirtualRanks ranks(1 + below(random, 9), random_config(random));
    std::string log;
    for (int call = 0; call < 8; ++call) {
      const Theme theme = random_theme(random);
      std::vector<Inputs> inputs;
      for (int r = 0; r < ranks.size(); ++r) inputs.push_back(random_inputs(random, theme));
      ranks.joint(inputs);
      for (const std::string& lines : ranks.log) log += lines;
    }
    return log;
  };
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    ASSERT_EQ(log_of(seed), log_of(seed)) << "seed " << seed;
}

TEST(Agreement, UnderSameGraph_AFitOnAllRanks_MeansThatThereIsNoConflict) {
  // Why a hit needs no look for errors: see the README of worker/agree/agreement.
  int fits = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const DecisionConfig config{.consistency = seed % 2 == 0 ? Consistency::SameGraph
                                                             : Consistency::SharedSizes};
    VirtualRanks ranks(1 + below(random, 3), config);
    const Theme theme = random_theme(random);
    std::vector<Inputs> inputs;
    for (int call = 0; call < 3; ++call) {
      inputs.clear();
      for (int r = 0; r < ranks.size(); ++r) inputs.push_back(random_inputs(random, theme));
      if (ranks.joint(inputs).kind != CallOutcome::Kind::Reused) continue;
      ++fits;
      std::vector<Observation> seen;
      for (const Inputs& in : inputs) seen.push_back(in.build());
      ASSERT_FALSE(find_conflict(joint_of(seen), config)) << "seed " << seed;
    }
  }
  EXPECT_GT(fits, 500);
}

}  // namespace
}  // namespace lockstep::worker::agreement_property_test
