// The nameless vector of a miss, against the join of decoded observations as its oracle.
#include <random>

#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/conflict.h>
#include <lockstep/worker/exchange.h>

namespace lockstep::worker {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
}

/// Ranks that have the same sources; `spread` in ten of their values differ.
std::vector<Observation> same_sources(Random& random, int ranks) {
  const int sources = below(random, 6);
  const int spread = below(random, 4);
  const bool marked = below(random, 3) == 0;
  std::vector<int> kinds, dims;
  for (int s = 0; s < sources; ++s) {
    kinds.push_back(below(random, 6));
    dims.push_back(below(random, 4));
  }
  const std::uint64_t common = random();
  std::vector<Observation> out;
  for (int r = 0; r < ranks; ++r) {
    Random theme(common);
    const auto value = [&](int limit) {
      const int agreed = below(theme, limit);
      return below(random, 10) < spread ? below(random, limit) : agreed;
    };
    Inputs in;
    for (std::size_t s = 0; s < kinds.size(); ++s) {
      const std::string name(1, static_cast<char>('a' + s));
      if (kinds[s] == 0) in.real(name);
      if (kinds[s] == 1) in.boolean(name, value(2) == 1);
      if (kinds[s] == 2) in.integer(name, value(3) - 1);
      if (kinds[s] < 3) continue;
      std::vector<std::int64_t> sizes;
      for (int d = 0; d < dims[s]; ++d) sizes.push_back(value(4));
      in.tensor(name, sizes, DType::I32);
      for (std::size_t d = 0; marked && d < sizes.size(); ++d)
        if (below(random, 3) == 0) in.mark(name, d, static_cast<Mark>(below(random, 5)));
    }
    out.push_back(in.build());
  }
  return out;
}

FrameState random_state(Random& random) {
  FrameState state;
  for (const Observation& seen : same_sources(random, 2))
    for (const SourceCell& cell : observe({}, seen, {}, true, {}).sources)
      state[cell.name] = shapes::join(state[cell.name], cell.state);
  return state;
}

Bytes random_tree(Random& random, const std::vector<Bytes>& payloads, std::size_t first,
                  std::size_t last) {
  if (last - first == 1) return payloads[first];
  const std::size_t middle = first + 1 + random() % (last - first - 1);
  return join_columns(random_tree(random, payloads, first, middle),
                      random_tree(random, payloads, middle, last));
}

std::vector<Bytes> payloads_of(const std::vector<Observation>& ranks) {
  std::vector<Bytes> out;
  for (const Observation& rank : ranks) out.push_back(list_payload(rank));
  return out;
}

TEST(Columns, AnyTree_SaysWhatTheJoinOfDecodedObservationsSays) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto ranks = same_sources(random, 1 + below(random, 8));
    const FrameState state = random_state(random);
    const bool history = below(random, 4) != 0;
    JointObservation expected = observe({0}, ranks[0], state, history, {});
    for (std::size_t r = 1; r < ranks.size(); ++r)
      expected =
          join(expected, observe({static_cast<std::int32_t>(r)}, ranks[r], state, history, {}));
    const auto payloads = payloads_of(ranks);
    Bytes fold = payloads[0];
    for (std::size_t r = 1; r < payloads.size(); ++r) fold = join_columns(fold, payloads[r]);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(random_tree(random, payloads, 0, payloads.size()), fold);
    const auto joint = read_list_payload(fold, *ranks[0].list, state, history);
    ASSERT_TRUE(joint);
    ASSERT_EQ(joint->sources, expected.sources);
  }
}

/// Sizes that differ between any two of four consecutive ranks.
Observation wide(int rank, int sources) {
  std::vector<SourceSpec> specs;
  Observation out;
  for (int s = 0; s < sources; ++s) {
    specs.push_back({"layer" + std::to_string(10000 + s), Kind::Tensor, DType::F32, 4});
    out.values.insert(out.values.end(), {5 + rank % 4, 16, 9 - rank % 4, 64});
  }
  out.list = std::make_shared<SourceList>(std::move(specs));
  return out;
}

TEST(Columns, NoMessage_IsLongerForMoreRanks_OrLongerThanThreeColumns) {
  const Bytes of_two = join_columns(list_payload(wide(0, 1000)), list_payload(wide(1, 1000)));
  Bytes joined = of_two;
  for (int r = 2; r < 300; ++r) {
    joined = join_columns(joined, list_payload(wide(r, 1000)));
    ASSERT_EQ(joined.size(), of_two.size());
  }
  EXPECT_LE(of_two.size(), 3U * 4000 * 8 + 64);
}

TEST(Columns, WhereAllRanksSeeTheSame_OneColumnTravels) {
  const Bytes joined = join_columns(list_payload(wide(1, 1000)), list_payload(wide(1, 1000)));
  EXPECT_EQ(joined, list_payload(wide(1, 1000)));
  EXPECT_LE(joined.size(), 4000U * 8 + 64);
}

TEST(Columns, AnotherList_JoinsToNothing_WhichNobodyCanRead) {
  const Observation mine = wide(0, 3);
  const Observation other = wide(0, 4);
  EXPECT_TRUE(join_columns(list_payload(mine), list_payload(other)).empty());
  EXPECT_TRUE(join_columns({}, list_payload(other)).empty());
  EXPECT_TRUE(join_columns(list_payload(mine), {}).empty());
  EXPECT_FALSE(read_list_payload(list_payload(other), *mine.list, {}, true));
  EXPECT_FALSE(read_list_payload({}, *mine.list, {}, true));
}

TEST(Columns, Garbage_NeverCrashes_AndIsRefusedOrHarmless) {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto ranks = same_sources(random, 3);
    const auto payloads = payloads_of(ranks);
    Bytes bytes = join_columns(payloads[0], payloads[1]);
    for (int i = 1 + below(random, 4); i > 0; --i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
    if (below(random, 3) == 0) bytes.resize(random() % (bytes.size() + 1));
    const Bytes joined =
        seed % 2 == 0 ? join_columns(bytes, payloads[2]) : join_columns(payloads[2], bytes);
    EXPECT_TRUE(Columns::of(bytes) || joined.empty());
    const auto joint = read_list_payload(joined, *ranks[0].list, {}, true);
    refused += joint ? 0 : 1;
    if (!joint) continue;
    (void)find_conflict(*joint, {});
    (void)decision_text(decide(*joint, {}));
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lockstep::worker
