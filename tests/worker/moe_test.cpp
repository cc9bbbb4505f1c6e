// The mixture-of-experts example's model on real ranks: against one rank, against finite
// differences, and against the interpreter.
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "job_ranks.h"
#include "moe_text/model.h"

namespace lockstep::worker::moe_test {
namespace {

using moe_text::Batch;
using moe_text::EvaluateInput;
using moe_text::Measures;
using moe_text::Parameters;

constexpr std::int64_t kWidth = 6, kHidden = 5, kExperts = 4, kTokens = 11, kPositions = 7;

struct Gradients {
  std::vector<Tensor> of;
  Measures measures;
  template <class V>
  void fields(V& v) {
    v("of", of), v("measures", measures);
  }
};

/// The same numbers for the same name, whatever the rank.
Tensor random(std::vector<std::int64_t> sizes, const std::string& name) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 engine(seed);
  Array array(DType::F64, std::move(sizes));
  for (std::int64_t i = 0; i < array.elements(); ++i)
    array.set(i, static_cast<double>(engine() >> 11) * 0x1p-53 - 0.5);
  return array;
}

/// Rows first to first + count of a tensor.
Tensor rows_of(const Tensor& all, std::int64_t first, std::int64_t count) {
  const Array& from = all.array();
  std::vector<std::int64_t> sizes = from.sizes();
  const std::int64_t row = from.elements() / sizes[0];
  sizes[0] = count;
  Array part(from.dtype(), sizes);
  for (std::int64_t i = 0; i < count * row; ++i) part.set(i, from.at(first * row + i));
  return part;
}

/// All experts: what one rank holds when it is alone.
Parameters whole() {
  Parameters p;
  p.embed = random({kTokens, kWidth}, "embed"), p.position = random({kPositions, kWidth}, "pos");
  p.norm_attention = random({kWidth}, "norm_a"), p.norm_experts = random({kWidth}, "norm_e");
  p.norm_head = random({kWidth}, "norm_h"), p.router = random({kWidth, kExperts}, "router");
  p.query = random({kWidth, kWidth}, "query"), p.key = random({kWidth, kWidth}, "key");
  p.value = random({kWidth, kWidth}, "value"), p.out = random({kWidth, kWidth}, "out");
  p.head = random({kWidth, kTokens}, "head");
  p.expert_in = random({kExperts, kWidth, kHidden}, "in");
  p.expert_out = random({kExperts, kHidden, kWidth}, "out of expert");
  return p;
}

using Lines = std::vector<std::vector<std::int64_t>>;

Lines random_lines(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Lines lines(count);
  for (auto& line : lines) {
    line.resize(1 + engine() % (kPositions - 1));
    for (std::int64_t& token : line) token = static_cast<std::int64_t>(engine() % kTokens);
  }
  return lines;
}

/// One rank's share of the lines, padded to its own longest; each token predicts itself plus one.
Batch share(const Lines& lines, int rank, int ranks) {
  const auto n = lines.size();
  const std::size_t first = n * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks);
  const std::size_t end =
      n * (static_cast<std::size_t>(rank) + 1) / static_cast<std::size_t>(ranks);
  std::size_t width = 1;
  for (std::size_t l = first; l < end; ++l) width = std::max(width, lines[l].size());
  Array tokens = Array::zeros(
      DType::I64, {static_cast<std::int64_t>(end - first), static_cast<std::int64_t>(width)});
  std::vector<std::int64_t> rows, targets;
  for (std::size_t l = first; l < end; ++l)
    for (std::size_t i = 0; i < lines[l].size(); ++i) {
      const auto at = static_cast<std::int64_t>((l - first) * width + i);
      tokens.set(at, static_cast<double>(lines[l][i]));
      rows.push_back(at);
      targets.push_back((lines[l][i] + 1) % kTokens);
    }
  return {tokens, integers(rows), integers(targets)};
}

/// A job and the model's two frames on it.
struct Model {
  explicit Model(Job& made)
      : job(made),
        evaluate(job.frame<EvaluateInput, Measures>("evaluate",
                                                    [n = job.size()](EvaluateInput in) {
                                                      return moe_text::evaluate(in.parameters,
                                                                                in.batch, n);
                                                    })),
        gradients(
            job.frame<EvaluateInput, Gradients>("gradients", [n = job.size()](EvaluateInput in) {
              Gradients out;
              out.of = moe_text::gradients(in.parameters, in.batch, n, out.measures);
              return out;
            })) {}

  /// This rank's input out of the whole model's.
  EvaluateInput input(Parameters p, const Lines& lines) const {
    const std::int64_t here = kExperts / job.size(), first = here * job.rank();
    p.expert_in = rows_of(p.expert_in, first, here);
    p.expert_out = rows_of(p.expert_out, first, here);
    return {p, share(lines, job.rank(), job.size())};
  }

  Job& job;
  CompiledFrame<EvaluateInput, Measures> evaluate;
  CompiledFrame<EvaluateInput, Gradients> gradients;
};

/// A job over all ranks, and one of this rank by itself to compare with.
class MoeTest : public JobRanks {
 protected:
  void SetUp() override {
    JobRanks::SetUp();
    Settings settings;
    settings.log = {"off"};
    settings.cache_dir = TEST_CACHE;
    auto made = Job::attach(MPI_COMM_SELF, {.settings = settings, .summary = false});
    ASSERT_TRUE(made) << made.error().text();
    alone = std::move(*made);
    ASSERT_EQ(alone->size(), 1);
  }
  void expect_same_loss(Model& many, Model& one, const Parameters& p, const Lines& lines) {
    const auto all = many.evaluate(many.input(p, lines));
    const auto reference = one.evaluate(one.input(p, lines));
    ASSERT_TRUE(all) << all.error().text();
    ASSERT_TRUE(reference) << reference.error().text();
    EXPECT_NEAR(only(all->loss), only(reference->loss), 1e-12) << lines.size() << " lines";
    for (std::int64_t e = 0; e < kExperts; ++e)
      EXPECT_EQ(all->load.array().at(e), reference->load.array().at(e));
  }
  std::unique_ptr<Job> alone;
};

TEST_F(MoeTest, LossIsThatOfOneRank_AlsoWhereRanksHaveNoLines) {
  Model many(*job), one(*alone);
  int compiles = 0;
  for (const std::size_t lines : {8, 5, 1, 9, 2, 3, 7}) {
    expect_same_loss(many, one, whole(), random_lines(lines, lines));
    compiles += many.evaluate.last_compiled();
  }
  EXPECT_LE(compiles, 4);
  EXPECT_TRUE(finish());
}

TEST_F(MoeTest, RanksWhoseExpertsReceiveNoRow_TakeAnOrdinaryStep) {
  Model many(*job), one(*alone);
  Parameters p = whole();
  p.router = filled({kWidth, kExperts}, 0);  // all tie, so the lowest is taken
  const Lines lines = random_lines(8, 1);
  expect_same_loss(many, one, p, lines);
  const auto out = many.gradients(many.input(p, lines));
  ASSERT_TRUE(out) << out.error().text();
  double rows = 0;
  for (const auto& line : lines) rows += static_cast<double>(line.size());
  EXPECT_EQ(out->measures.load.array().at(0), rows);
  const Array& expert_in = out->of[11].array();
  for (std::int64_t i = 0; rank > 0 && i < expert_in.elements(); ++i)
    ASSERT_EQ(expert_in.at(i), 0) << "an expert without rows has no gradient";
  expect_same_loss(many, one, whole(), lines);  // and the next step routes as usual
  EXPECT_TRUE(finish());
}

TEST_F(MoeTest, GradientsAreThoseOfOneRank) {
  Model many(*job), one(*alone);
  const Lines lines = random_lines(7, 3);
  const auto all = many.gradients(many.input(whole(), lines));
  const auto reference = one.gradients(one.input(whole(), lines));
  ASSERT_TRUE(all) << all.error().text();
  ASSERT_TRUE(reference) << reference.error().text();
  ASSERT_EQ(all->of.size(), 13U);
  for (std::size_t t = 0; t < all->of.size(); ++t) {
    const Array& mine = all->of[t].array();
    const std::int64_t offset = t < 11 ? 0 : mine.elements() * rank;  // of an expert: my share
    for (std::int64_t i = 0; i < mine.elements(); ++i)
      ASSERT_NEAR(mine.at(i), reference->of[t].array().at(offset + i), 1e-12) << t << " at " << i;
  }
}

TEST_F(MoeTest, GradientsAreFiniteDifferences) {
  Model many(*job), one(*alone);
  const Lines lines = random_lines(8, 5);
  const auto found = one.gradients(one.input(whole(), lines));
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_GT(only(found->measures.margin), 1e-4) << "the router is too close to a tie";
  const double h = 1e-6;
  int compared = 0;
  std::mt19937_64 engine(7);
  for (std::size_t t = 0; t < found->of.size(); ++t) {
    const std::int64_t elements = found->of[t].array().elements();
    for (int k = 0; k < 3; ++k) {
      const auto at = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(elements));
      double loss[2];
      bool same_route = true;
      for (const int side : {0, 1}) {
        Parameters p = whole();
        Array changed = p.all()[t]->array().clone();
        changed.set(at, changed.at(at) + (side ? h : -h));
        *p.all()[t] = changed;
        const auto out = many.evaluate(many.input(p, lines));
        ASSERT_TRUE(out) << out.error().text();
        loss[side] = only(out->loss);
        for (std::int64_t e = 0; e < kExperts; ++e)
          same_route &= out->load.array().at(e) == found->measures.load.array().at(e);
      }
      if (!same_route) continue;
      ++compared;
      EXPECT_NEAR((loss[1] - loss[0]) / (2 * h), found->of[t].array().at(at), 1e-7)
          << "parameter " << t << " element " << at;
    }
  }
  EXPECT_GE(compared, 30);
}

TEST_F(MoeTest, InterpretedAndSettledCallsGiveTheNumbersOfCompiledOnes) {
  std::vector<double> compiled, interpreted, settled;
  const std::size_t counts[] = {8, 6, 9, 1, 4};
  const auto run = [&](std::vector<double>& numbers) {
    Model many(*job);
    int fallbacks = 0;
    for (const std::size_t lines : counts) {
      const auto out = many.gradients(many.input(whole(), random_lines(lines, lines)));
      ASSERT_TRUE(out) << out.error().text();
      fallbacks += contains(many.gradients.last_call(), "interpreted");
      numbers.push_back(only(out->measures.loss));
      for (const Tensor& gradient : out->of)
        for (std::int64_t i = 0; i < gradient.array().elements(); ++i)
          numbers.push_back(gradient.array().at(i));
    }
    EXPECT_EQ(fallbacks, &numbers == &interpreted ? 4 : 0);
    EXPECT_TRUE(finish());
  };
  run(compiled);
  start({.automatic_dynamic = false, .recompile_limit = 1, .settle = false});
  run(interpreted);
  start({.recompile_limit = 1});  // one entry, in which the parameters' sizes are symbols too
  run(settled);
  ASSERT_EQ(compiled.size(), interpreted.size());
  ASSERT_EQ(compiled.size(), settled.size());
  for (std::size_t i = 0; i < compiled.size(); ++i) {
    ASSERT_NEAR(compiled[i], interpreted[i], 1e-9) << i;
    ASSERT_NEAR(compiled[i], settled[i], 1e-9) << i;
  }
}

struct Trained {
  std::vector<double> losses;
  std::string error;
};

/// Trains on `mine(step)`; an empty optional: this rank is out of data and takes part with an empty
/// batch.
Trained train(Job& job, int ranks, const std::function<std::optional<Batch>(int)>& mine) {
  auto step = job.frame<moe_text::StepInput, moe_text::StepOutput>(
      "train_step", [ranks](moe_text::StepInput in) { return moe_text::step(in, ranks); });
  moe_text::StepInput in;
  in.parameters = whole();
  const std::int64_t here = kExperts / ranks;
  in.parameters.expert_in = rows_of(in.parameters.expert_in, here * job.rank(), here);
  in.parameters.expert_out = rows_of(in.parameters.expert_out, here * job.rank(), here);
  const auto zeros = [](Parameters& like) {
    Parameters out;
    for (std::size_t i = 0; i < like.all().size(); ++i)
      *out.all()[i] = Array::zeros(DType::F64, like.all()[i]->array().sizes());
    return out;
  };
  in.first_moment = zeros(in.parameters), in.second_moment = zeros(in.parameters);
  in.rate = 1e-2;
  Trained out;
  for (int s = 0;; ++s) {
    std::optional<Batch> batch = mine(s);
    const auto more = job.more(batch.has_value());
    if (!more) return {out.losses, more.error().text()};
    if (!*more) return out;
    in.batch = batch ? *batch : share({}, 0, 1);
    const auto done = step(in);
    if (!done) return {out.losses, done.error().text()};
    in.parameters = done->parameters, in.first_moment = done->first_moment,
    in.second_moment = done->second_moment;
    out.losses.push_back(only(done->measures.loss));
  }
}

/// Losses of ranks with `batches(rank)` batches each are those of the same lines spread evenly.
void expect_losses_of_even_spread(Job& uneven, Job& even, int batches_of(int rank, int ranks)) {
  const int ranks = uneven.size();
  const auto lines_of = [](int rank, int s) {
    return random_lines(2 + static_cast<std::size_t>(rank + s) % 3,
                        static_cast<std::uint64_t>(100 * rank + s));
  };
  const Trained ours = train(uneven, ranks, [&](int s) -> std::optional<Batch> {
    if (s >= batches_of(uneven.rank(), ranks)) return std::nullopt;
    return share(lines_of(uneven.rank(), s), 0, 1);
  });
  const Trained reference = train(even, ranks, [&](int s) -> std::optional<Batch> {
    Lines all;
    for (int r = 0; r < ranks; ++r)
      if (s < batches_of(r, ranks))
        for (auto& line : lines_of(r, s)) all.push_back(line);
    if (all.empty()) return std::nullopt;
    return share(all, even.rank(), ranks);
  });
  EXPECT_EQ(ours.error, "");
  EXPECT_EQ(reference.error, "");
  int most = 0;
  for (int r = 0; r < ranks; ++r) most = std::max(most, batches_of(r, ranks));
  ASSERT_EQ(ours.losses.size(), static_cast<std::size_t>(most));
  ASSERT_EQ(reference.losses.size(), ours.losses.size());
  for (std::size_t s = 0; s < ours.losses.size(); ++s)
    EXPECT_NEAR(ours.losses[s], reference.losses[s], 1e-9 * reference.losses[s]) << "step " << s;
}

TEST_F(MoeTest, RanksWithDifferentNumbersOfBatches_TrainAsIfTheDataWereSpreadEvenly) {
  std::unique_ptr<Job> uneven = std::move(job);
  start({});
  expect_losses_of_even_spread(*uneven, *job, [](int of, int) { return 1 + 3 * of; });
  EXPECT_TRUE(finish());
  EXPECT_TRUE(uneven->finish());
}

TEST_F(MoeTest, RanksWithoutAnyBatch_TrainAsIfTheDataWereSpreadEvenly) {
  std::unique_ptr<Job> uneven = std::move(job);
  start({});
  expect_losses_of_even_spread(*uneven, *job,
                               [](int of, int ranks) { return of == ranks - 1 ? 4 : 0; });
  EXPECT_TRUE(finish());
  EXPECT_TRUE(uneven->finish());
}

TEST_F(MoeTest, StepThatFailsOnOneRank_LeavesTheJobAsIfItHadNotBeenTaken) {
  using moe_text::StepInput;
  using moe_text::StepOutput;
  const auto losses = [&](bool with_failure) {
    auto step = job->frame<StepInput, StepOutput>(
        "step", [n = size](StepInput in) { return moe_text::step(in, n); });
    StepInput in;
    in.parameters = Model(*job).input(whole(), {}).parameters;
    for (Parameters* moment : {&in.first_moment, &in.second_moment})
      for (std::size_t t = 0; t < in.parameters.all().size(); ++t)
        *moment->all()[t] = Array::zeros(DType::F64, in.parameters.all()[t]->array().sizes());
    in.rate = 1e-2;
    std::vector<double> out;
    for (std::uint64_t k = 0; k < 4; ++k) {
      in.batch = share(random_lines(9 + k, k + 1), rank, size);
      if (with_failure && k == 2) {
        StepInput bad = in;
        if (last) {
          Array rows = bad.batch.rows.array().clone();
          rows.set(0, 1e6);
          bad.batch.rows = rows;
        }
        const auto failed = step(bad);
        EXPECT_FALSE(failed);
        if (failed) return out;
        EXPECT_EQ(failed.error().code, Code::RuntimeAssert);
        EXPECT_TRUE(contains(failed.error().message, last_text())) << failed.error().text();
        EXPECT_TRUE(contains(failed.error().message, "1000000")) << failed.error().text();
        expect_joint(failed.error());
      }
      const auto done = step(in);
      EXPECT_TRUE(done) << done.error().text();
      if (!done) return out;
      out.push_back(only(done->measures.loss));
      in.parameters = done->parameters;
      in.first_moment = done->first_moment, in.second_moment = done->second_moment;
    }
    EXPECT_TRUE(finish());
    return out;
  };
  const std::vector<double> with = losses(true);
  start({});
  const std::vector<double> without = losses(false);
  EXPECT_EQ(with.size(), 4U);
  EXPECT_EQ(with, without);
}

}  // namespace
}  // namespace lockstep::worker::moe_test
