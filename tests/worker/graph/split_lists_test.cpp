// Split lists that the user gives: which of them a graph proves to fit, and the comparison of the
// others, which lets no row move that a peer does not expect. Ranks as threads.
#include <algorithm>
#include <random>

#include "joint_error.h"
#include "tracing.h"
#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::split_lists_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using Lists = std::vector<std::vector<std::int64_t>>;  // per rank, per peer

Tensor rows_of(Trace& t) { return t.tensor_input(t.source("rows")); }
Tensor list_of(Trace& t, const char* name) { return t.tensor_input(t.source(name)); }

Graph traced(int ranks, const std::function<void(Trace&)>& body, bool peers_may_differ = false) {
  DecisionBuilder decision;
  decision.tensor("counts", DType::I64, {2 * ranks})
      .tensor("in", DType::I64, {ranks})
      .tensor("out", DType::I64, {ranks})
      .tensor("rows", DType::F64, {dynamic(6, 0), 1});
  TraceSetup setup = test::setup(decision.get(), ranks);
  setup.peers_may_differ = peers_may_differ;
  setup.group = {"", RankSet::all(ranks), Rank{0}};
  auto made = trace(setup, body);
  EXPECT_TRUE(made) << made.error().text();
  return made ? *made : Graph{};
}

/// Rows go by lists that the user gives, and their gradients come back.
Graph given(int ranks, const Group& group = {}) {
  return traced(ranks, [&](Trace& t) {
    const Sizes to = tolist(list_of(t, "in"), Values::NonNegative);
    const Sizes from = tolist(list_of(t, "out"), Values::NonNegative);
    const auto part = [&](const Sizes& list) {
      return Sizes(list.begin(), list.begin() + (group.name.empty() ? ranks : group.size()));
    };
    const Tensor x = rows_of(t);
    const Tensor y = all_to_all_single(x, part(from), part(to), group);
    t.output("y", y);
    t.output("g", grad(sum(y * y), {x})[0]);
  });
}

std::vector<Inputs> inputs_of(const Lists& in, const Lists& out) {
  std::vector<Inputs> inputs;
  const auto ranks = static_cast<std::int64_t>(in.size());
  for (std::size_t r = 0; r < in.size(); ++r) {
    std::int64_t rows = 0;
    for (const std::int64_t count : in[r]) rows += count;
    Array x(DType::F64, {rows, 1});
    for (std::int64_t k = 0; k < rows; ++k)
      x.set(k, 100.0 * static_cast<double>(r) + static_cast<double>(k));
    inputs.push_back({{"counts", Array::zeros(DType::I64, {2 * ranks})},
                      {"in", integers({ranks}, in[r])},
                      {"out", integers({ranks}, out[r])},
                      {"rows", x}});
  }
  return inputs;
}

Lists transposed(const Lists& in) {
  Lists out = in;
  for (std::size_t r = 0; r < in.size(); ++r)
    for (std::size_t p = 0; p < in.size(); ++p) out[r][p] = in[p][r];
  return out;
}

/// What the comparison has to say; nothing where the lists fit.
std::string misfit(const Lists& in, const Lists& out) {
  for (std::size_t r = 0; r < in.size(); ++r)
    for (std::size_t p = 0; p < in.size(); ++p)
      if (in[p][r] != out[r][p])
        return fmt::format("rank {} expects {} row{} from rank {}, which sends {};", r, out[r][p],
                           out[r][p] == 1 ? "" : "s", p, in[p][r]);
  return {};
}

void expect_moved(const OnRanks::Run& run, const Lists& in) {
  for (std::size_t r = 0; r < in.size(); ++r) {
    ASSERT_TRUE(run.ranks[r]->has_value()) << run.ranks[r]->error().text();
    const Array &y = run.ranks[r]->value()[0], &g = run.ranks[r]->value()[1];
    std::int64_t at = 0, mine = 0;
    for (std::size_t p = 0; p < in.size(); ++p) {
      std::int64_t before = 0;
      for (std::size_t q = 0; q < r; ++q) before += in[p][q];
      for (std::int64_t k = 0; k < in[p][r]; ++k)
        EXPECT_EQ(y.at(at++), 100.0 * static_cast<double>(p) + static_cast<double>(before + k));
      mine += in[r][p];
    }
    EXPECT_EQ(y.elements(), at);
    ASSERT_EQ(g.elements(), mine);
    for (std::int64_t k = 0; k < mine; ++k)
      EXPECT_EQ(g.at(k), 2 * (100.0 * static_cast<double>(r) + static_cast<double>(k)));
  }
}

TEST(SplitLists, RandomLists_RowsMoveIfAndOnlyIfTheyFit) {
  int fitted = 0, refused = 0;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    OnRanks on_ranks(given(ranks), ranks);
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      std::mt19937_64 random(seed * 7 + static_cast<std::uint64_t>(ranks));
      const auto draw = [&](std::size_t below) {
        return static_cast<std::size_t>(random() % below);
      };
      const auto n = static_cast<std::size_t>(ranks);
      Lists in(n, std::vector<std::int64_t>(n));
      for (auto& list : in)
        for (std::int64_t& rows : list) rows = seed == 1 ? 0 : static_cast<std::int64_t>(draw(4));
      Lists out = transposed(in);
      for (std::size_t changes = seed % 3; changes > 0; --changes)
        out[draw(n)][draw(n)] = static_cast<std::int64_t>(draw(5));
      SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, seed));
      const auto run = on_ranks.everywhere(inputs_of(in, out));
      const std::string wrong = misfit(in, out);
      if (wrong.empty()) {
        ++fitted;
        EXPECT_EQ(run.collectives, 3) << "the comparison, the rows, their gradients";
        EXPECT_EQ(run.rounds, 1);
        expect_moved(run, in);
        continue;
      }
      ++refused;
      EXPECT_EQ(run.collectives, 1) << "no row moves";
      for (const auto& rank : run.ranks) {
        ASSERT_FALSE(rank->has_value());
        EXPECT_EQ(rank->error().code, Code::RuntimeAssert);
        EXPECT_EQ(rank->error().text(), run.ranks[0]->error().text());
        EXPECT_NE(rank->error().message.find(wrong), std::string::npos)
            << rank->error().text() << " instead of " << wrong;
        EXPECT_NE(rank->error().message.find("split_lists_test.cpp:"), std::string::npos);
      }
    }
  }
  EXPECT_GT(fitted, 12);
  EXPECT_GT(refused, 12);
}

TEST(SplitLists, RankThatHasFailed_TakesPartAndItsErrorCounts) {
  OnRanks on_ranks(given(3), 3);
  const Lists in{{1, 2, 0}, {0, 1, 1}, {2, 2, 2}};
  Lists out = transposed(in);
  auto inputs = inputs_of(in, out);
  inputs[2]["in"] = integers({3}, {2, 2, 3});
  const auto run = on_ranks.everywhere(inputs);
  EXPECT_TRUE(joint(run, RankSet::of({2})));
  EXPECT_NE(run.ranks[0]->error().message.find("in_splits add up"), std::string::npos)
      << run.ranks[0]->error().text();
}

TEST(SplitLists, InGroupsThatArePartsOfTheRanks_AllRanksGetTheError) {
  const Group pair{"pair", RankSet::range({0}, {1}), Rank{0}};
  const Graph graph = given(4, pair);
  for (const bool fits : {true, false}) {
    const Lists in(4, {2, 1, 0, 0});
    Lists out{{2, 2, 0, 0}, {1, 1, 0, 0}, {2, 2, 0, 0}, {1, 1, 0, 0}};
    if (!fits) out[3][0] = 4;
    const auto inputs = inputs_of(in, out);
    for (const bool compiled : {false, true}) {
      ThreadGroup threads(4);
      threads.declare("pair", {0, 1});
      threads.declare("pair", {2, 3});
      std::vector<std::string> said(4);
      std::vector<std::unique_ptr<Executable>> own;
      for (int r = 0; r < 4; ++r) own.push_back(compile(graph));
      threads.run([&](collectives::Communicator& all, RunHost& host) {
        const auto r = static_cast<std::size_t>(all.rank().value);
        const auto got =
            compiled ? own[r]->run(inputs[r], all, host) : interpret(graph, inputs[r], all, host);
        said[r] = got ? "" : got.error().text();
      });
      for (const std::string& text : said) {
        EXPECT_EQ(text, said[0]);
        EXPECT_EQ(text.empty(), fits) << text;
        EXPECT_EQ(text.find("expects 4 rows from rank") == std::string::npos, fits) << text;
      }
    }
  }
}

/// How many all_to_alls compare their lists.
std::int64_t comparisons(const Graph& graph) {
  const ErrorSyncPoints points = error_sync_points(graph);
  return std::ranges::count(points.compares, true);
}

/// The lists by `make` of a rank's counts and of what came for them; there and back.
Graph routed(int ranks, const std::function<std::pair<Sizes, Sizes>(Tensor, Tensor)>& make,
             bool peers_may_differ = false) {
  return traced(
      ranks,
      [&](Trace& t) {
        const Tensor counts = list_of(t, "counts");
        const auto [to, from] = make(counts, all_to_all_single(counts));
        const Tensor x = rows_of(t);
        const Tensor there = all_to_all_single(x, from, to);
        const Tensor back = all_to_all_single(there * there, to, from);
        t.output("g", grad(sum(back), {x})[0]);
      },
      peers_may_differ);
}

Sizes read(const Tensor& x) { return tolist(x, Values::NonNegative); }
Sizes per_peer(const Tensor& counts, int ranks) {
  return read(sum(reshape(counts, {ranks, 2}), {1}));
}
Sizes added(const Sizes& list, std::int64_t factor = 1) {
  Sizes out;
  for (std::size_t p = 0; p < list.size() / 2; ++p)
    out.push_back(list[2 * p] * factor + list[2 * p + 1]);
  return out;
}

TEST(SplitLists, ListsOutOfExchangedCounts_AreProvenAndCostNothing) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto none = [&](const std::function<std::pair<Sizes, Sizes>(Tensor, Tensor)>& make) {
      const Graph graph = routed(ranks, make);
      EXPECT_EQ(comparisons(graph), 0) << graph.text();
    };
    using Pair = std::pair<Sizes, Sizes>;
    none([&](Tensor c, Tensor r) { return Pair{per_peer(c, ranks), per_peer(r, ranks)}; });
    none([&](Tensor c, Tensor r) {
      Sizes from = per_peer(r, ranks);  // read first
      return Pair{per_peer(c, ranks), std::move(from)};
    });
    none([&](Tensor c, Tensor r) { return Pair{added(read(c)), added(read(r))}; });
    none([&](Tensor c, Tensor r) { return Pair{added(read(c), 3), added(read(r), 3)}; });
  }
  OnRanks on_ranks(routed(2,
                          [](Tensor c, Tensor r) {
                            return std::pair{per_peer(c, 2), per_peer(r, 2)};
                          }),
                   2);
  auto inputs = inputs_of({{3, 1}, {0, 2}}, {{3, 0}, {1, 2}});
  inputs[0]["counts"] = integers({4}, {1, 2, 1, 0});
  inputs[1]["counts"] = integers({4}, {0, 0, 2, 0});
  const auto run = on_ranks.everywhere(inputs);
  for (const auto& rank : run.ranks) ASSERT_TRUE(rank->has_value()) << rank->error().text();
  EXPECT_EQ(run.collectives, 5) << "counts, there, back and the two gradients";
  EXPECT_EQ(run.rounds, 0) << "the exchange of counts carries the status";
}

TEST(SplitLists, WhatOnlyLooksAlike_IsCompared) {
  using Pair = std::pair<Sizes, Sizes>;
  const auto compared = [&](const std::function<Pair(Tensor, Tensor)>& make) {
    const Graph graph = routed(3, make);
    EXPECT_EQ(comparisons(graph), 1) << graph.text();
  };
  compared([](Tensor c, Tensor r) { return Pair{added(read(c), 2), added(read(r))}; });
  compared([](Tensor c, Tensor r) {
    Sizes from = per_peer(r, 3);
    std::swap(from[0], from[2]);
    return Pair{per_peer(c, 3), from};
  });
  compared([](Tensor c, Tensor r) {
    Sizes from = per_peer(r, 3);
    from[1] = from[1] + 1;
    return Pair{per_peer(c, 3), from};
  });
  compared([](Tensor c, Tensor) { return Pair{per_peer(c, 3), per_peer(c, 3)}; });
  compared([](Tensor c, Tensor r) {
    return Pair{per_peer(c, 3), per_peer(all_to_all_single(r), 3)};  // back at their sender
  });
  compared([](Tensor c, Tensor r) {
    return Pair{per_peer(c, 3), per_peer(all_to_all_single(c + r), 3)};
  });
}

TEST(SplitLists, WhereGraphsMayDiffer_NothingIsProven) {
  const Graph graph = routed(
      2,
      [](Tensor c, Tensor r) {
        return std::pair{per_peer(c, 2), per_peer(r, 2)};
      },
      true);
  EXPECT_EQ(comparisons(graph), 5) << graph.text();
}

TEST(SplitLists, CountsOfAnotherGroup_ProveNothing) {
  const Group pair{"pair", RankSet::range({0}, {1}), Rank{0}};
  for (const bool own : {true, false}) {
    const Graph graph = traced(4, [&](Trace& t) {
      const Group& counts_of = own ? pair : Group{};
      const Tensor counts = slice(list_of(t, "counts"), 0, 0, 4);
      const Sizes to = read(counts), from = read(all_to_all_single(counts, counts_of));
      const auto two = [&](const Sizes& s) { return Sizes{s[0] + s[1], s[2] + s[3]}; };
      t.output("y", all_to_all_single(rows_of(t), two(from), two(to), pair));
    });
    EXPECT_EQ(comparisons(graph), own ? 0 : 1) << graph.text();
  }
}

}  // namespace
}  // namespace lockstep::worker::split_lists_test
