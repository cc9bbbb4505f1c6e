#include <random>

#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/exchange.h>
#include <lockstep/worker/hints.h>
#include <lockstep/worker/roll.h>

namespace lockstep::worker {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
}

Inputs random_inputs(Random& random) {
  Inputs in;
  for (const char* name : {"a", "b", "c"}) {
    switch (below(random, 6)) {
      case 0:
        break;
      case 1:
        in.integer(name, below(random, 3));
        break;
      case 2:
        in.boolean(name, below(random, 2) != 0);
        break;
      case 3:
        in.real(name);
        break;
      default: {
        std::vector<std::int64_t> sizes(static_cast<std::size_t>(below(random, 4)));
        for (auto& size : sizes) size = below(random, 4);
        const std::size_t dims = sizes.size();
        in.tensor(name, sizes, static_cast<DType>(below(random, 10)));
        for (std::size_t d = 0; d < dims; ++d)
          in.mark(name, d, static_cast<Mark>(below(random, 5)));
      }
    }
  }
  return in;
}

FrameState random_state(Random& random) {
  FrameState state;
  for (const char* name : {"b", "c", "d"}) {
    if (below(random, 2) == 0) continue;
    const Inputs in = random_inputs(random);
    const Observation seen = in.build();
    for (const SourceCell& cell : observe({}, seen, {}, true, {}).sources)
      state[name] = shapes::join(state[name], cell.state);
  }
  return state;
}

std::vector<Bytes> random_payloads(Random& random, int size) {
  std::vector<Bytes> out;
  for (int r = 0; r < size; ++r)
    out.push_back(encode(observe({r}, random_inputs(random).build(), random_state(random), true,
                                 {1, static_cast<std::uint64_t>(below(random, 2))})));
  return out;
}

Bytes fold(const std::vector<Bytes>& payloads) {
  Bytes out = payloads[0];
  for (std::size_t i = 1; i < payloads.size(); ++i) out = join_payloads(out, payloads[i]);
  return out;
}

Bytes random_tree(Random& random, const std::vector<Bytes>& payloads, std::size_t first,
                  std::size_t last) {
  if (last - first == 1) return payloads[first];
  const std::size_t middle = first + 1 + random() % (last - first - 1);
  return join_payloads(random_tree(random, payloads, first, middle),
                       random_tree(random, payloads, middle, last));
}

TEST(Exchange, JoinOfRandomPayloads_AnyTree_EqualsTheSequentialFold) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto payloads = random_payloads(random, 2 + below(random, 8));
    const Bytes expected = fold(payloads);
    ASSERT_FALSE(expected.empty());
    for (int i = 0; i < 5; ++i)
      ASSERT_EQ(random_tree(random, payloads, 0, payloads.size()), expected);
  }
}

TEST(Exchange, EncodeThenDecode_GivesTheSame) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const auto payloads = random_payloads(random, 3);
    const auto joint = decode_joint(fold(payloads));
    ASSERT_TRUE(joint) << "seed " << seed;
    EXPECT_EQ(encode(*joint), fold(payloads)) << "seed " << seed;
  }
}

/// What the cells must say, straight from the inputs.
TEST(Exchange, JoinedCells_SayWhatTheRanksSay) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<Observation> ranks;
    std::vector<Bytes> payloads;
    for (int r = 0; r < 1 + below(random, 6); ++r) {
      ranks.push_back(random_inputs(random).build());
      payloads.push_back(encode(observe({r}, ranks.back(), {}, true, {})));
    }
    const JointObservation joint = *decode_joint(fold(payloads));
    for (const SourceCell& cell : joint.sources) {
      std::size_t have = 0;
      std::vector<std::int64_t> numbers;
      std::vector<std::vector<std::int64_t>> by_dim(cell.dims.size());
      for (const Observation& rank : ranks) {
        const auto i = rank.list->find(cell.name);
        if (!i) continue;
        ++have;
        const SourceSpec& spec = rank.list->sources()[*i];
        EXPECT_TRUE(cell.has(spec.kind));
        if (spec.kind == Kind::Int) numbers.push_back(rank.of(*i)[0]);
        if (spec.kind == Kind::Tensor)
          for (std::size_t d = 0; d < spec.ndim; ++d) by_dim.at(d).push_back(rank.of(*i)[d]);
      }
      EXPECT_EQ(cell.missing, have < ranks.size());
      const auto check = [](const DimCell& dim, const std::vector<std::int64_t>& values) {
        ASSERT_FALSE(values.empty());
        EXPECT_EQ(dim.first, values.front());
        EXPECT_EQ(dim.least, *std::min_element(values.begin(), values.end()));
        EXPECT_EQ(dim.greatest, *std::max_element(values.begin(), values.end()));
      };
      EXPECT_EQ(cell.number.has_value(), !numbers.empty());
      if (cell.number) check(*cell.number, numbers);
      for (std::size_t d = 0; d < by_dim.size(); ++d) check(cell.dims[d], by_dim[d]);
    }
  }
}

TEST(Exchange, PayloadOfTheSameInputs_IsAsLongForAnyNumberOfRanks) {
  const Observation seen = Inputs().tensor("tokens", {5, 10}).integer("n", 3).build();
  const auto payload = [&](int r) { return encode(observe({r}, seen, {}, true, {})); };
  Bytes joined = payload(0);
  const std::size_t length = joined.size();
  for (int r = 1; r < 300; ++r) {
    joined = join_payloads(joined, payload(r));
    ASSERT_EQ(joined.size(), length);
  }
}

TEST(Exchange, Garbage_NeverCrashes_AndIsRefusedOrHarmless) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Bytes bytes = fold(random_payloads(random, 2));
    const int flips = 1 + below(random, 4);
    for (int i = 0; i < flips; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
    if (below(random, 3) == 0) bytes.resize(random() % (bytes.size() + 1));
    const Bytes good = random_payloads(random, 1)[0];
    const Bytes joined = join_payloads(bytes, good);
    if (!decode_joint(bytes)) {
      EXPECT_TRUE(joined.empty());
    }
    const auto joint = decode_joint(joined);
    if (!joint) continue;
    for (const auto consistency : {Consistency::SameGraph, Consistency::SharedSizes}) {
      const DecisionConfig config{.consistency = consistency};
      (void)find_conflict(*joint, config);
      (void)decision_text(decide(*joint, config));
      (void)known_donor(*joint);
    }
    (void)roll_values(join_rolls(bytes, good));
  }
}

TEST(Exchange, EmptyPayload_AbsorbsEverything) {
  Random random(1);
  const Bytes good = random_payloads(random, 1)[0];
  EXPECT_TRUE(join_payloads({}, good).empty());
  EXPECT_TRUE(join_payloads(good, {}).empty());
}

TEST(Roll, AnyTree_GivesOneLinePerValueByLowestRank) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int size = 1 + below(random, 200);
    std::vector<Bytes> payloads;
    std::map<std::string, RankSet> expected;
    for (int r = 0; r < size; ++r) {
      std::optional<std::string> value;
      if (below(random, 4) != 0) value = std::string(1, static_cast<char>(below(random, 128)));
      if (value) expected[*value].insert(RankSet::of({r}));
      payloads.push_back(roll_payload({r}, value));
    }
    Bytes joined = payloads[0];
    for (int r = 1; r < size; ++r)
      joined = join_rolls(joined, payloads[static_cast<std::size_t>(r)]);
    const auto values = roll_values(joined);
    ASSERT_EQ(values.size(), expected.size()) << "seed " << seed;
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i].ranks, expected.at(values[i].value));
      if (i > 0) {
        EXPECT_LT(values[i - 1].ranks.lowest(), values[i].ranks.lowest());
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::worker
