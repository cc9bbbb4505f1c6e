// Jagged inputs on real ranks: lengths that differ without a compile, features that go to the ranks
// that own them and back, and what does not fit as one error of all ranks.
#include <algorithm>
#include <cmath>
#include <random>

#include "job_ranks.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/jagged/feature_exchange.h>
#include <lockstep/worker/tensor/jagged/segments.h>

namespace lockstep::worker::jagged_job_test {
namespace {

using I = std::int64_t;
using Owners = std::vector<Rank>;

/// Rows of one feature of one sample of a rank: a function of its arguments. Some features are
/// absent from a whole batch.
I rows_of(int rank, I feature, I sample, int call) {
  std::seed_seq seed{rank, static_cast<int>(feature), static_cast<int>(sample), call};
  std::mt19937_64 engine(seed);
  if ((feature + rank + call) % 5 == 0) return 0;
  return static_cast<I>(engine() % 4);
}
/// The element of a row that tells where it comes from.
double value_of(int rank, I feature, I sample, I row) {
  return rank * 1e6 + static_cast<double>(feature) * 1e4 + static_cast<double>(sample * 100 + row);
}

struct Features {
  KeyedJagged features;
  template <class V>
  void fields(V& v) {
    v("features", features);
  }
};

Features batch_of(int rank, I features, I samples, int call) {
  Array lengths(DType::I64, {features, samples});
  std::vector<double> values;
  for (I f = 0; f < features; ++f)
    for (I b = 0; b < samples; ++b) {
      const I rows = rows_of(rank, f, b, call);
      lengths.data_as<I>()[f * samples + b] = rows;
      for (I row = 0; row < rows; ++row)
        for (const double part : {0.0, 0.5}) values.push_back(part + value_of(rank, f, b, row));
    }
  return {{Array::of(DType::F64, {static_cast<I>(values.size()) / 2, 2}, values), lengths}};
}

const std::vector<std::string> kAnySize{"0 <= features.values.size(0)",
                                        "0 <= features.lengths.size(1)"};

struct Exchanged {
  KeyedJagged mine;
  Tensor back;      // of the sum over each segment, times two
  Tensor gradient;  // by the values, of the sum of squares of what was received
  template <class V>
  void fields(V& v) {
    v("mine", mine), v("back", back), v("gradient", gradient);
  }
};

Exchanged exchanged(const Features& in, const Owners& owner, const Group& group = {}) {
  const KeyedJagged mine = exchange_features(in.features, owner, group);
  const Tensor sums = segment_sum(all_features(mine)) * 2.0;
  const Tensor pooled = reshape(sums, {mine.lengths.size(0), mine.lengths.size(1), 2});
  return {mine, exchange_back(pooled, owner, group),
          grad(sum(mine.values * mine.values), {in.features.values})[0]};
}

class JaggedJob : public JobRanks {
 protected:
  /// What rank `rank` gets, and gets back, by plain loops.
  void expect_right(const Exchanged& out, const Features& in, const Owners& owner,
                    const std::vector<I>& samples, int call) const {
    const auto features = static_cast<I>(owner.size());
    const I all = std::accumulate(samples.begin(), samples.end(), I{0});
    std::vector<double> values;
    std::vector<I> lengths(static_cast<std::size_t>(feature_slots(owner) * all), 0);
    std::size_t at = 0;
    for (const I f : features_of(owner, Rank{rank}))
      for (int from = 0; from < size; ++from)
        for (I b = 0; b < samples[static_cast<std::size_t>(from)]; ++b) {
          const I rows = lengths[at++] = rows_of(from, f, b, call);
          for (I row = 0; row < rows; ++row) values.push_back(value_of(from, f, b, row));
        }
    ASSERT_EQ(out.mine.lengths.array().sizes(), (std::vector<I>{feature_slots(owner), all}));
    for (std::size_t i = 0; i < lengths.size(); ++i)
      EXPECT_EQ(out.mine.lengths.array().at(static_cast<I>(i)), static_cast<double>(lengths[i]));
    ASSERT_EQ(out.mine.values.array().sizes(), (std::vector<I>{static_cast<I>(values.size()), 2}));
    for (std::size_t i = 0; i < values.size(); ++i)
      for (const I j : {0, 1})
        EXPECT_EQ(out.mine.values.array().at(2 * static_cast<I>(i) + j),
                  values[i] + 0.5 * static_cast<double>(j));
    const I mine = samples[static_cast<std::size_t>(rank)];
    ASSERT_EQ(out.back.array().sizes()[0], features);
    ASSERT_GE(out.back.array().sizes()[1], mine);
    for (I f = 0; f < features; ++f)
      for (I b = 0; b < mine; ++b) {
        double expected = 0;
        for (I row = 0; row < rows_of(rank, f, b, call); ++row)
          expected += 2 * value_of(rank, f, b, row);
        EXPECT_EQ(out.back.array().at((f * out.back.array().sizes()[1] + b) * 2), expected);
      }
    const Array &x = in.features.values.array(), &gradient = out.gradient.array();
    ASSERT_EQ(gradient.sizes(), x.sizes());
    for (I i = 0; i < x.elements(); ++i) EXPECT_EQ(gradient.at(i), 2 * x.at(i));
  }
  /// 26 features, dealt out, in a row, and all on the last rank.
  [[nodiscard]] std::vector<Owners> layouts() const {
    std::vector<Owners> all(3);
    for (int f = 0; f < 26; ++f) {
      all[0].push_back(Rank{(f * 7 + 3) % size});
      all[1].push_back(Rank{f * size / 26});
      all[2].push_back(Rank{size - 1});
    }
    return all;
  }
};

TEST_F(JaggedJob, Exchange_GivesEveryRankItsFeatures_AsByLoops) {
  int frames = 0;
  for (const Owners& owner : layouts()) {
    auto step = job->frame<Features, Exchanged>(
        "step" + std::to_string(frames++), {.constraints = kAnySize},
        [&](const Features& in) { return exchanged(in, owner); });
    int compiles = 0;
    for (int call = 0; call < 8; ++call) {
      const I samples[] = {3, 4, 2, 1, 0, 5, 1, 7};
      const Features in = batch_of(rank, 26, samples[call], call);
      const auto out = step(in);
      ASSERT_TRUE(out) << out.error().text();
      expect_right(*out, in, owner, std::vector<I>(static_cast<std::size_t>(size), samples[call]),
                   call);
      compiles += step.last_compiled();
    }
    EXPECT_LE(compiles, 2);  // the second one for a batch of 0 or 1
  }
  EXPECT_TRUE(finish());
}

TEST_F(JaggedJob, ExchangeOfBatchesThatDiffer_IsOfTheLargest) {
  const Owners owner = layouts()[0];
  auto step = job->frame<Features, Exchanged>(
      "step", [&](const Features& in) { return exchanged({same_batch(in.features)}, owner); });
  for (int call = 0; call < 4; ++call) {
    const I most = (call + size - 1) % 3 + 2;
    const auto mine = [&](int r) { return std::max<I>(0, most - (r + call) % size); };
    const Features in = batch_of(rank, 26, mine(rank), call);
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    // As if the samples without features were there.
    const Array& lengths = out->mine.lengths.array();
    ASSERT_EQ(lengths.sizes()[1] % size, 0);
    const I batch = lengths.sizes()[1] / size;
    I largest = 0;
    for (int r = 0; r < size; ++r) largest = std::max(largest, mine(r));
    EXPECT_EQ(batch, largest);
    I slot = 0;
    for (const I f : features_of(owner, Rank{rank})) {
      for (int from = 0; from < size; ++from)
        for (I b = 0; b < batch; ++b)
          EXPECT_EQ(lengths.at((slot * size + from) * batch + b),
                    static_cast<double>(b < mine(from) ? rows_of(from, f, b, call) : 0));
      ++slot;
    }
    const Array &x = in.features.values.array(), &gradient = out->gradient.array();
    for (I i = 0; i < x.elements(); ++i) EXPECT_EQ(gradient.at(i), 2 * x.at(i));
  }
  EXPECT_TRUE(finish());
}

/// Half of the ranks exchange among themselves, the lower ones other batches than the upper ones.
TEST_F(JaggedJob, ExchangeInAGroup_StaysThere) {
  const int half_size = std::max(1, size / 2), first = rank / half_size * half_size;
  const bool in_one = first < 2 * half_size;  // with an odd number the last rank is in neither
  const auto half =
      job->group("half", in_one ? RankSet::range({first}, {first + half_size - 1}) : RankSet{});
  ASSERT_TRUE(half) << half.error().text();
  Owners owner;
  for (int f = 0; f < 7; ++f) owner.push_back(Rank{(f * 3 + 1) % half_size});
  auto step = job->frame<Features, Exchanged>("step", {.group = *half}, [&](const Features& in) {
    return exchanged({same_batch(in.features, *half)}, owner, *half);
  });
  for (int call = 0; in_one && call < 3; ++call) {
    const auto samples = [&](int r) {
      return static_cast<I>((r + call) % 3 + (r < half_size ? 0 : 2));
    };
    const Features in = batch_of(rank, 7, samples(rank), call);
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    I batch = 0;
    for (int r = first; r < first + half_size; ++r) batch = std::max(batch, samples(r));
    const Array &lengths = out->mine.lengths.array(), &values = out->mine.values.array();
    ASSERT_EQ(lengths.sizes(), (std::vector<I>{feature_slots(owner), half_size * batch}));
    std::size_t slot = 0;
    I row = 0;
    for (const I f : features_of(owner, Rank{rank - first})) {
      for (int from = 0; from < half_size; ++from)
        for (I b = 0; b < batch; ++b) {
          const int r = first + from;
          const I rows = b < samples(r) ? rows_of(r, f, b, call) : 0;
          EXPECT_EQ(lengths.at((static_cast<I>(slot) * half_size + from) * batch + b),
                    static_cast<double>(rows));
          for (I k = 0; k < rows; ++k) EXPECT_EQ(values.at(2 * row++), value_of(r, f, b, k));
        }
      ++slot;
    }
    const Array& back = out->back.array();
    ASSERT_EQ(back.sizes(), (std::vector<I>{7, batch, 2}));
    for (I f = 0; f < 7; ++f)
      for (I b = 0; b < samples(rank); ++b) {
        double expected = 0;
        for (I k = 0; k < rows_of(rank, f, b, call); ++k) expected += 2 * value_of(rank, f, b, k);
        EXPECT_EQ(back.at((f * batch + b) * 2), expected);
      }
    const Array &x = in.features.values.array(), &gradient = out->gradient.array();
    for (I i = 0; i < x.elements(); ++i) EXPECT_EQ(gradient.at(i), 2 * x.at(i));
  }
  EXPECT_TRUE(finish());
}

TEST_F(JaggedJob, BatchesThatDifferWithoutThat_AreOneErrorOfAllRanks) {
  if (size == 1) return;  // nobody to differ from
  const Owners owner = layouts()[0];
  auto step = job->frame<Features, Exchanged>(
      "step", [&](const Features& in) { return exchanged(in, owner); });
  for (const bool wrong : {false, true, false}) {
    const auto out = step(batch_of(rank, 26, wrong && last ? 4 : 3, 1));
    ASSERT_EQ(out.has_value(), !wrong);
    if (out) continue;
    EXPECT_EQ(out.error().code, Code::ConstraintViolation) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(JaggedJob, LengthsThatDoNotFitOnOneRank_AreOneErrorOfAllRanks_AndTheNextCallWorks) {
  int frames = 0;
  for (const Owners& owner : layouts()) {
    auto step =
        job->frame<Features, Exchanged>("step" + std::to_string(frames++),
                                        [&](const Features& in) { return exchanged(in, owner); });
    for (const int wrong : {0, 1, 0, 2, 0}) {  // one row too many; a negative length
      Features in = batch_of(rank, 26, 3, 2);
      if (wrong > 0 && last) {
        Array lengths = in.features.lengths.array().clone();
        lengths.data_as<I>()[4] += wrong == 1 ? 1 : -7;
        lengths.data_as<I>()[5] += wrong == 1 ? 0 : 7;
        in.features.lengths = lengths;
      }
      const auto out = step(in);
      ASSERT_EQ(out.has_value(), wrong == 0) << "wrong: " << wrong;
      if (out) continue;
      EXPECT_EQ(out.error().code, Code::RuntimeAssert) << out.error().text();
      EXPECT_TRUE(contains(out.error().text(), "jagged_job_test.cpp:")) << out.error().text();
      expect_joint(out.error());
    }
  }
  EXPECT_TRUE(finish());
}

struct Received {
  KeyedJagged mine;
  template <class V>
  void fields(V& v) {
    v("mine", mine);
  }
};

/// Two lengths whose sum is right, of features that lie in the order of their owners.
TEST_F(JaggedJob, ANegativeLengthThatAnotherMakesUpFor_IsAnErrorToo) {
  Owners owner;
  for (int f = 0; f < 2 * size; ++f) owner.push_back({f / 2});
  auto step = job->frame<Features, Received>(
      "step", [&](const Features& in) { return Received{exchange_features(in.features, owner)}; });
  for (const bool wrong : {false, true, false}) {
    Features in = batch_of(rank, 2 * size, 3, 2);
    if (wrong && last) {
      Array lengths = in.features.lengths.array().clone();
      lengths.data_as<I>()[0] += 7;
      lengths.data_as<I>()[1] -= 7;
      in.features.lengths = lengths;
    }
    const auto out = step(in);
    ASSERT_EQ(out.has_value(), !wrong);
    if (out) continue;
    EXPECT_EQ(out.error().code, Code::RuntimeAssert) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "exchange_features at jagged_job_test.cpp:"))
        << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), " was given length ")) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "rank " + std::to_string(size - 1)))
        << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(JaggedJob, RanksThatNameOtherOwners_AreToldSo) {
  if (size == 1) return;
  Owners owner = layouts()[1];
  if (last) std::swap(owner.front(), owner.back());
  auto step = job->frame<Features, Exchanged>(
      "step", [&](const Features& in) { return exchanged(in, owner); });
  const auto out = step(batch_of(rank, 26, 3, 1));
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, Code::GraphDivergence) << out.error().text();
  expect_joint(out.error());
}

struct Text {
  Jagged lines;
  template <class V>
  void fields(V& v) {
    v("lines", lines);
  }
};

/// Calls a frame with lengths that differ between ranks and calls; after how many calls it compiled
/// for the last time, of how many compiles.
std::pair<int, int> compiles_of(Job& job, const std::vector<std::string>& constraints,
                                const std::vector<std::vector<I>>& lengths_of_calls) {
  auto step = job.frame<Text, Y>("step", {.constraints = constraints}, [](const Text& in) {
    const Tensor total = segment_sum(segment_softmax(in.lines));
    const Tensor most = where(in.lines.lengths > 0, segment_max(in.lines), 1.5);
    return Y{all_reduce(sum(total)) + all_reduce(sum(most - 1.5))};
  });
  std::pair<int, int> last_and_count{0, 0};
  for (int call = 0; call < 24; ++call) {
    const auto of_rank = [&](int r) {
      return lengths_of_calls[static_cast<std::size_t>(call + 3 * r) % lengths_of_calls.size()];
    };
    const std::vector<I> lengths = of_rank(job.rank());
    double expected = 0;
    for (int r = 0; r < job.size(); ++r)
      for (const I length : of_rank(r)) expected += length > 0 ? 1 : 0;
    const I rows = std::accumulate(lengths.begin(), lengths.end(), I{0});
    const auto out = step({{filled({rows}, 1.5), integers(lengths)}});
    EXPECT_TRUE(out) << out.error().text();
    if (!out) return {};
    EXPECT_NEAR(only(out->y), expected, 1e-12) << call;
    if (step.last_compiled()) last_and_count = {call + 1, last_and_count.second + 1};
  }
  return last_and_count;
}

TEST_F(JaggedJob, LengthsThatChange_CompileInTheFirstTwoCallsAtMost) {
  const auto [last_compile, compiles] = compiles_of(
      *job, {}, {{3, 2}, {1, 4, 2}, {1, 1}, {0, 2}, {0, 0, 3}, {0, 2, 1, 0}, {7, 1}, {12, 0}});
  EXPECT_LE(last_compile, 2);
  EXPECT_LE(compiles, 2);
  EXPECT_TRUE(finish());
}

TEST_F(JaggedJob, LengthsWithoutRowsOrSegments_DeclaredSo_CompileOnce) {
  start({.assume_at_least_two = false});
  const auto [last_compile, compiles] =
      compiles_of(*job, {"0 <= lines.values.size(0)", "0 <= lines.lengths.size(0)"},
                  {{3, 2}, {1, 4, 2}, {1}, {0}, {}, {0, 0}, {1, 0, 0, 1}, {7, 1}, {2, 2}, {12}});
  EXPECT_EQ(last_compile, 1);
  EXPECT_EQ(compiles, 1);
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::jagged_job_test
