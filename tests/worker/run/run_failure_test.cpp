// A rank that fails in the middle of a graph: whatever fails on whichever ranks, all of them return
// the same error, that of a rank that caused it, and no collective meets another or waits. Random
// programs, with a plain model of what they compute.
#include <algorithm>
#include <random>

#include "joint_error.h"
#include "tracing.h"

#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::run_failure_test {
namespace {

using collectives::Reduce;
using test::DecisionBuilder;
using test::dynamic;

/// One statement of a random program on a vector v of 2n doubles per rank.
enum class Kind {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  AllToAll,
  Select,
  Check,
  Route,
  Read
};
constexpr int kKinds = 9;
struct Statement {
  Kind kind = Kind::AllReduce;
  int choice = 0;  // which reduction, root, or manner of routing
};

/// What a rank brings to the statements; the model computes with it in plain loops.
struct RankData {
  std::vector<double> v;
  std::vector<std::vector<std::int64_t>> list;  // per statement: index, flag or counts
  std::vector<std::vector<double>> rows;        // per statement: what is routed
};

class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, int ranks) : random_(seed), ranks_(ranks) {
    for (std::size_t n = 3 + random_() % 6; n > 0; --n)
      statements_.push_back(
          {static_cast<Kind>(random_() % kKinds), static_cast<int>(random_() % 12)});
    data_.resize(static_cast<std::size_t>(ranks));
    for (RankData& rank : data_) fill(rank);
  }

  [[nodiscard]] Graph graph() const {
    DecisionBuilder decision;
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      const Kind kind = statements_[i].kind;
      if (kind == Kind::Select) decision.tensor(numbered(i, "list"), DType::I64, {width()});
      if (kind == Kind::Check || kind == Kind::Read)
        decision.tensor(numbered(i, "list"), DType::I64, {1});
      if (kind == Kind::Route)
        decision.tensor(numbered(i, "list"), DType::I64, {2 * ranks_})
            .tensor(numbered(i, "rows"), DType::F64, {dynamic(6, 0), 1});
    }
    decision.tensor("v", DType::F64, {width()});
    auto made = trace(test::setup(decision.get(), ranks_), [&](Trace& t) {
      Tensor v = t.tensor_input(t.source("v"));
      for (std::size_t i = 0; i < statements_.size(); ++i) v = traced(t, i, v);
      t.output("v", v);
    });
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : Graph{};
  }

  [[nodiscard]] std::vector<Inputs> inputs() const {
    std::vector<Inputs> out;
    for (const RankData& rank : data_) {
      Inputs in;
      in["v"] = Array::of(DType::F64, {width()}, rank.v);
      for (std::size_t i = 0; i < statements_.size(); ++i) {
        if (!rank.list[i].empty())
          in[numbered(i, "list")] =
              integers({static_cast<std::int64_t>(rank.list[i].size())}, rank.list[i]);
        if (statements_[i].kind == Kind::Route)
          in[numbered(i, "rows")] = Array::of(
              DType::F64, {static_cast<std::int64_t>(rank.rows[i].size()), 1}, rank.rows[i]);
      }
      out.push_back(std::move(in));
    }
    return out;
  }

  /// Something on one rank that the program must refuse; the ranks that may be the first to notice,
  /// none where no statement can fail.
  RankSet spoil(std::mt19937_64& random, int rank) {
    std::vector<std::size_t> can;
    for (std::size_t i = 0; i < statements_.size(); ++i)
      if (statements_[i].kind >= Kind::Select) can.push_back(i);
    if (can.empty()) return {};
    const std::size_t i = can[random() % can.size()];
    std::vector<std::int64_t>& list = data_[static_cast<std::size_t>(rank)].list[i];
    const std::size_t at = random() % list.size();
    const Kind kind = statements_[i].kind;
    // One count too many or one that is negative, an index behind the end, a flag of 5 or -100.
    if (kind == Kind::Route)
      list[at] = random() % 2 == 0 ? list[at] + 1 : -1 - list[at];
    else
      list[at] = kind == Kind::Select ? width() + 3 : kind == Kind::Read ? -100 : 5;
    RankSet first = RankSet::of(Rank{rank});
    if (kind == Kind::Read) first.insert({0, ranks_ - 1});
    return first;
  }

  /// What every rank's v is in the end, by plain loops over all ranks.
  [[nodiscard]] std::vector<std::vector<double>> expected() const {
    std::vector<std::vector<double>> v;
    for (const RankData& rank : data_) v.push_back(rank.v);
    for (std::size_t i = 0; i < statements_.size(); ++i) v = plain(i, v);
    return v;
  }

 private:
  [[nodiscard]] std::int64_t width() const { return 2 * ranks_; }
  [[nodiscard]] Rank root(const Statement& s) const { return Rank{s.choice % ranks_}; }

  void fill(RankData& rank) {
    const auto small = [&] { return static_cast<double>(random_() % 9) - 4; };
    for (std::int64_t i = 0; i < width(); ++i) rank.v.push_back(small());
    rank.list.resize(statements_.size());
    rank.rows.resize(statements_.size());
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      auto& list = rank.list[i];
      if (statements_[i].kind == Kind::Select)
        for (std::int64_t k = 0; k < width(); ++k)
          list.push_back(static_cast<std::int64_t>(random_()) % width());
      for (std::int64_t& index : list) index = (index + width()) % width();
      if (statements_[i].kind == Kind::Check || statements_[i].kind == Kind::Read)
        list = {1 + static_cast<std::int64_t>(random_() % 3)};
      if (statements_[i].kind != Kind::Route) continue;
      for (int k = 0; k < 2 * ranks_; ++k) {
        list.push_back(static_cast<std::int64_t>(random_() % 3));
        for (std::int64_t r = 0; r < list.back(); ++r) rank.rows[i].push_back(small());
      }
    }
  }

  Tensor traced(Trace& t, std::size_t i, const Tensor& v) const {
    const Statement& s = statements_[i];
    const auto list = [&] { return t.tensor_input(t.source(numbered(i, "list"))); };
    switch (s.kind) {
      case Kind::AllReduce:
        return v + all_reduce(v, static_cast<Reduce>(s.choice % 3)) * 0.5;
      case Kind::AllGather:
        return v + sum(reshape(all_gather(v), {ranks_, width()}), {0}) * 0.25;
      case Kind::ReduceScatter:
        return v + all_gather(reduce_scatter(v)) * 0.5;
      case Kind::Broadcast:
        return v * 0.5 + broadcast(v, root(s));
      case Kind::AllToAll:
        return all_to_all_single(v);
      case Kind::Select:
        return index_select(v, list());
      case Kind::Check: {
        const SymInt flag = item(reshape(list(), {}));
        check(flag < 5, "the flag is small");
        return v + 1.0;
      }
      case Kind::Read: {
        const SymInt all = item(reshape(all_reduce(list()), {}));
        check(all >= ranks_, "every flag is positive");  // may break on zeros from a failed rank
        return v + sum(full(t, {all}, 1.0, DType::F64));
      }
      case Kind::Route:
        return v + routed(t.tensor_input(t.source(numbered(i, "rows"))), list(), s.choice);
    }
    return v;
  }

  /// Two counts per rank, as if each had two experts.
  Tensor routed(const Tensor& x, const Tensor& counts, int manner) const {
    const Tensor received = manner % 4 == 3 ? slices_of_all(counts) : all_to_all_single(counts);
    const auto per_rank = [&](const Tensor& c) { return sum(reshape(c, {ranks_, 2}), {1}); };
    Sizes to, from;
    if (manner % 2 == 0) {
      to = tolist(per_rank(counts), Values::NonNegative);
      from = tolist(per_rank(received), Values::NonNegative);
    } else {
      const Sizes sent = tolist(counts, Values::NonNegative);
      const Sizes got = tolist(received, Values::NonNegative);
      for (std::size_t p = 0; p < static_cast<std::size_t>(ranks_); ++p) {
        to.push_back(sent[2 * p] + sent[2 * p + 1]);
        from.push_back(got[2 * p] + got[2 * p + 1]);
      }
    }
    SymInt all = from[0];
    for (std::size_t p = 1; p < from.size(); ++p) all = all + from[p];
    if (manner >= 8) check(all <= 1000, "the rows fit");
    const Tensor there = all_to_all_single(x, from, to);
    const Tensor ids = segment_ids(received, there.size(0));
    const Tensor back =
        all_to_all_single(there * there + reshape(cast(ids * 0, DType::F64), {-1, 1}), to, from);
    return sum(back * x) + sum(there);
  }

  /// The exchange of counts by an all_gather, which carries no status.
  Tensor slices_of_all(const Tensor& counts) const {
    const Tensor all = reshape(all_gather(counts), {ranks_, ranks_, 2});  // [sender, receiver, 2]
    const Tensor mine =
        reshape(argsort(full(*counts.trace(), {ranks_}, 0, DType::I64)) == counts.trace()->rank(),
                {1, ranks_, 1});
    return reshape(sum(where(expand(mine, {ranks_, ranks_, 2}), all, 0), {1}), {2 * ranks_});
  }

  [[nodiscard]] std::vector<std::vector<double>> plain(
      std::size_t i, const std::vector<std::vector<double>>& v) const {
    auto out = v;
    const auto n = static_cast<std::size_t>(ranks_);
    const auto& at = statements_[i];
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t k = 0; k < 2 * n; ++k) {
        double total = 0, low = v[0][k], high = v[0][k], flags = 0;
        for (std::size_t p = 0; p < n; ++p) {
          total += v[p][k], low = std::min(low, v[p][k]), high = std::max(high, v[p][k]);
          if (at.kind == Kind::Read) flags += static_cast<double>(data_[p].list[i][0]);
        }
        double& x = out[r][k];
        const int reduce = at.choice % 3;
        if (at.kind == Kind::AllReduce) x += 0.5 * (reduce == 0 ? total : reduce == 1 ? low : high);
        if (at.kind == Kind::AllGather) x += 0.25 * total;
        if (at.kind == Kind::ReduceScatter) x += 0.5 * total;
        if (at.kind == Kind::Broadcast)
          x = x * 0.5 + v[static_cast<std::size_t>(root(at).value)][k];
        if (at.kind == Kind::AllToAll) x = v[k / 2][2 * r + k % 2];
        if (at.kind == Kind::Select) x = v[r][static_cast<std::size_t>(data_[r].list[i][k])];
        if (at.kind == Kind::Check) x += 1;
        if (at.kind == Kind::Read) x += flags;
        if (at.kind == Kind::Route) x += plain_routed(i, r);
      }
    return out;
  }

  [[nodiscard]] double plain_routed(std::size_t i, std::size_t rank) const {
    double total = 0;
    for (double x : data_[rank].rows[i]) total += x * x * x;
    for (const RankData& sender : data_) {
      std::size_t row = 0;
      for (std::size_t k = 0; k < sender.list[i].size(); ++k)
        for (std::int64_t c = 0; c < sender.list[i][k]; ++c, ++row)
          if (k / 2 == rank) total += sender.rows[i][row];
    }
    return total;
  }

  std::mt19937_64 random_;
  int ranks_;
  std::vector<Statement> statements_;
  std::vector<RankData> data_;
};

testing::AssertionResult as_expected(const OnRanks::Run& run,
                                     const std::vector<std::vector<double>>& expected) {
  for (std::size_t r = 0; r < expected.size(); ++r) {
    if (!run.ranks[r]->has_value())
      return testing::AssertionFailure() << run.ranks[r]->error().text();
    const Array& got = run.ranks[r]->value()[0];
    for (std::size_t k = 0; k < expected[r].size(); ++k)
      if (std::abs(got.at(static_cast<std::int64_t>(k)) - expected[r][k]) >
          1e-9 * (1 + std::abs(expected[r][k])))
        return testing::AssertionFailure() << "rank " << r << " element " << k;
  }
  return testing::AssertionSuccess();
}

TEST(RunFailure, RandomProgramsAndFailures_AreJointAndOtherwiseAsByPlainLoops) {
  int failures = 0, compiled = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 4);
    RandomProgram program(seed, ranks);
    OnRanks on_ranks(program.graph(), ranks);
    const auto run = [&](std::vector<Inputs> inputs) {
      add_rank(inputs);
      if (seed % 37 != 0) return on_ranks.interpreted(inputs);
      ++compiled;
      return on_ranks.everywhere(inputs);
    };
    ASSERT_TRUE(as_expected(run(program.inputs()), program.expected())) << "seed " << seed;
    std::mt19937_64 random(seed);
    for (int attempt = 0; attempt < 6; ++attempt) {
      RandomProgram spoilt = program;
      RankSet guilty;
      for (int r = 0; r < ranks; ++r)
        if (random() % 3 == 0 || (r == ranks - 1 && guilty.empty()))
          guilty.insert(spoilt.spoil(random, r));
      if (guilty.empty()) break;
      ++failures;
      ASSERT_TRUE(joint(run(spoilt.inputs()), guilty)) << "seed " << seed << " attempt " << attempt;
    }
  }
  EXPECT_GT(failures, 1000);
  EXPECT_GT(compiled, 20);
}

TEST(RunFailure, FailedRank_KeepsItsFailureInAComparisonThatDiffers) {
  DecisionBuilder decision;
  decision.tensor("list", DType::I64, {2}).tensor("x", DType::F64, {dynamic(8, 0)});
  TraceSetup setup = test::setup(decision.get(), 3);
  setup.peers_may_differ = true;
  auto made = trace(setup, [](Trace& t) {
    const Tensor x = t.tensor_input(t.source("x"));
    const Tensor chosen = index_select(x, 0, t.tensor_input(t.source("list")));
    t.output("x", all_reduce(x + sum(chosen)));
  });
  ASSERT_TRUE(made) << made.error().text();
  OnRanks on_ranks(*made, 3);
  std::vector<Inputs> inputs;
  for (const std::int64_t rows : {4, 5, 4})
    inputs.push_back({{"list", integers({2}, {0, rows == 5 ? 1 : 2})},
                      {"x", Array::of(DType::F64, {rows}, std::vector<double>(rows, 1.0))}});
  EXPECT_EQ(on_ranks.everywhere(inputs).ranks[0]->error().code, Code::ConstraintViolation);
  inputs[0]["list"] = integers({2}, {0, 4});  // behind the end
  EXPECT_TRUE(joint(on_ranks.interpreted(inputs), RankSet::of(Rank{0})));
  EXPECT_TRUE(joint(on_ranks.everywhere(inputs), RankSet::of(Rank{0})));
}

}  // namespace
}  // namespace lockstep::worker::run_failure_test
