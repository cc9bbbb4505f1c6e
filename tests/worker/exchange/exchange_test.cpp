// The vector of a miss and the roster before it, against a naive exchange as oracle.
#include <algorithm>
#include <numeric>
#include <random>

#include "naive_exchange.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/agree/exchange/conflict.h>
#include <lockstep/worker/agree/exchange/exchange.h>
#include <lockstep/worker/agree/exchange/hints.h>

namespace lockstep::worker::exchange_test {
namespace {

using Random = std::mt19937_64;
using Payloads = std::vector<Bytes>;

int below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
}

/// Strides of a tensor whose dims lie in another order, with room between some of them.
std::vector<std::int64_t> random_strides(Random& random, const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::int64_t> out(sizes.size());
  std::int64_t next = 1 + below(random, 2);
  for (const std::size_t dim : order) {
    out[dim] = next;
    next *= sizes[dim] + (below(random, 3) == 0 ? 1 : 0);
  }
  return out;
}

/// What ranks of one call have in common but for deviations, of which `spread` in ten values have
/// one; with `mixed` sources may be absent, or be of another kind.
struct Theme {
  std::uint64_t seed = 0;
  int spread = 0;
  bool mixed = false, marked = false, strided = false;
  std::uint64_t fields = 0;  // 0: none; else their seed
};

/// Fields of one rank, of which the ranks differ in values, and now and then in all else.
void add_fields(Random& random, const Theme& theme, Inputs& in) {
  Random common(theme.fields);
  const bool wild = below(common, 4) == 0;
  for (int f = below(common, 4); f > 0; --f) {
    const std::string name = std::string("field") + static_cast<char>('a' + f);
    int type = below(common, 4), join = below(common, 4);
    const int length = below(common, 8) == 0 ? 1024 : below(common, 3);
    if (wild && below(random, 20) == 0) continue;
    if (wild && below(random, 20) == 0) type = below(random, 4);
    if (wild && below(random, 20) == 0) join = below(random, 4);
    const auto as = static_cast<FieldJoin>(join);
    const int value = below(random, 10) < theme.spread ? below(random, 5) - 2 : 0;
    // 0xff is above 'a' only as an unsigned byte.
    std::string text(static_cast<std::size_t>(length), "\xff\0a"[value < 0 ? 0 : value % 3]);
    if (value > 0 && length == 1024) text[random() % 1024] = static_cast<char>(random() & 0xff);
    if (type == 0) in.field(name, value != 0, as);
    if (type == 1) in.field(name, value == 2 ? INT64_MIN : std::int64_t{value}, as);
    if (type == 2) in.field(name, text, as);
    if (type == 3) in.field(name, std::as_bytes(std::span(text)), as);
  }
}

Theme random_theme(Random& random, bool mixed) {
  return {random(),
          below(random, 5),
          mixed,
          below(random, 3) == 0,
          below(random, 3) == 0,
          below(random, 2) == 0 ? 0 : random()};
}

Observation random_rank(Random& random, const Theme& theme) {
  Random common(theme.seed);
  const auto pick = [&](int limit, bool deviate) {
    const int agreed = below(common, limit);
    return deviate && below(random, 10) < theme.spread ? below(random, limit) : agreed;
  };
  Inputs in;
  for (int s = below(common, 6); s > 0; --s) {
    const std::string name(1, static_cast<char>('a' + s));
    const int kind = pick(7, theme.mixed);
    const int ndim = pick(4, theme.mixed);
    const DType dtype = static_cast<DType>(pick(10, theme.mixed));
    if (theme.mixed && below(random, 10) == 0) continue;
    if (kind == 0) in.real(name);
    if (kind == 1) in.boolean(name, pick(2, true) == 1);
    if (kind == 2) in.integer(name, pick(3, true) - 1);
    if (kind < 3) continue;
    std::vector<std::int64_t> sizes;
    for (int d = 0; d < ndim; ++d) sizes.push_back(pick(4, true));
    in.tensor(name, sizes, dtype);
    if (theme.strided && below(random, 2) == 0) in.strides(name, random_strides(random, sizes));
    for (std::size_t d = 0; theme.marked && d < sizes.size(); ++d)
      if (below(random, 3) == 0) in.mark(name, d, static_cast<Mark>(below(random, 5)));
  }
  if (theme.fields != 0) add_fields(random, theme, in);
  return in.build();
}

FrameState random_state(Random& random, const Theme& theme) {
  NaiveExchange exchange;
  for (int i = below(random, 3); i > 0; --i) exchange.add(random_rank(random, theme), {});
  return exchange.state(false);
}

/// Random ranks with what they stored.
struct Job {
  std::vector<Observation> ranks;
  std::vector<FrameState> states;
  bool history = true;

  Job(Random& random, bool mixed, int size) : history(below(random, 4) != 0) {
    const Theme theme = random_theme(random, mixed);
    const FrameState common = random_state(random, theme);
    const bool profiles = mixed && below(random, 2) == 0;
    for (int r = 0; r < size; ++r) {
      ranks.push_back(random_rank(random, theme));
      states.push_back(profiles ? random_state(random, theme) : common);
    }
  }
  [[nodiscard]] KnownNames names() const {
    KnownNames out;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      out = merge(out, roster_of(ranks[r], states[r], true, Dictionary()).names);
    return out;
  }
  [[nodiscard]] Payloads mixed_payloads(const Dictionary& dictionary, bool stored) const {
    Payloads out;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      out.push_back(mixed_payload(ranks[r], dictionary, stored ? &states[r] : nullptr));
    return out;
  }
  [[nodiscard]] Payloads list_payloads() const {
    Payloads out;
    for (const Observation& rank : ranks) out.push_back(list_payload(rank));
    return out;
  }
};

Bytes fold(const Payloads& payloads) {
  Bytes out = payloads[0];
  for (std::size_t i = 1; i < payloads.size(); ++i) out = join_columns(out, payloads[i]);
  return out;
}

Bytes random_tree(Random& random, const Payloads& payloads, std::size_t first, std::size_t last) {
  if (last - first == 1) return payloads[first];
  const std::size_t middle = first + 1 + random() % (last - first - 1);
  return join_columns(random_tree(random, payloads, first, middle),
                      random_tree(random, payloads, middle, last));
}

TEST(Exchange, AnyMixOfSources_SaysWhatTheNaiveExchangeSays) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Job job(random, seed % 3 != 0, 1 + below(random, 7));
    const auto joint = exchange_all(job.ranks, job.states, job.history);
    ASSERT_TRUE(joint);
    NaiveExchange expected;
    for (std::size_t r = 0; r < job.ranks.size(); ++r) expected.add(job.ranks[r], job.states[r]);
    expected.expect_equal(*joint, job.states[0], job.history);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Exchange, JoinOfRandomPayloads_AnyTree_EqualsTheSequentialFold) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const bool mixed = seed % 3 != 0;
    const Job job(random, mixed, 2 + below(random, 8));
    const Dictionary dictionary(job.names());
    const Payloads payloads =
        mixed ? job.mixed_payloads(dictionary, seed % 2 == 0) : job.list_payloads();
    const Bytes expected = fold(payloads);
    ASSERT_FALSE(expected.empty());
    for (int i = 0; i < 5; ++i)
      ASSERT_EQ(random_tree(random, payloads, 0, payloads.size()), expected);
    ASSERT_EQ(join_columns(expected, expected), expected);
  }
}

/// `sources` tensors of 4 dims; sizes differ between any two of four consecutive ranks.
Observation wide(int rank, int sources, int first = 0) {
  std::vector<SourceSpec> specs;
  Observation out;
  for (int s = first; s < first + sources; ++s) {
    specs.push_back({"layer" + std::to_string(10000 + s), Kind::Tensor, DType::F32, 4});
    out.values.insert(out.values.end(), {5 + rank % 4, 16, 9 - rank % 4, 64});
  }
  out.list = std::make_shared<SourceList>(std::move(specs));
  return out;
}

TEST(Exchange, NoMessage_IsLongerForMoreRanks_OrLongerThanThreeColumns) {
  Bytes joined = join_columns(list_payload(wide(0, 1000)), list_payload(wide(1, 1000)));
  const std::size_t of_two = joined.size();
  EXPECT_LE(of_two, 3U * 4000 * 8 + 64);
  for (int r = 2; r < 200; ++r) {
    joined = join_columns(joined, list_payload(wide(r, 1000)));
    ASSERT_EQ(joined.size(), of_two);
  }
}

TEST(Exchange, WhereAllRanksSeeTheSame_OneColumnTravels) {
  const Bytes mine = list_payload(wide(1, 1000));
  EXPECT_EQ(join_columns(mine, mine), mine);
  EXPECT_LE(mine.size(), 4000U * 8 + 64);
}

TEST(Exchange, ContiguousTensors_CostNothing_OthersOneColumn) {
  const std::vector<std::int64_t> kPlain{12, 4, 1}, kTurned{1, 2, 6};
  const Observation plain = Inputs().tensor("x", {2, 3, 4}).tensor("y", {5}).build();
  Inputs same;
  same.tensor("x", {2, 3, 4}).strides("x", kPlain).tensor("y", {5});
  EXPECT_EQ(list_payload(same.build()), list_payload(plain));
  Inputs other;
  other.tensor("x", {2, 3, 4}).strides("x", kTurned).tensor("y", {5});
  EXPECT_EQ(list_payload(other.build()).size(), list_payload(plain).size() + 2 * 8)
      << "a word per source";
}

TEST(Exchange, StridesOfDimsOfOneElement_AndOfEmptyTensors_SayNothing) {
  const auto payload = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
    Inputs in;
    in.tensor("x", sizes);
    const Bytes plain = list_payload(in.build());
    in.strides("x", strides);
    return list_payload(in.build()) == plain;
  };
  EXPECT_TRUE(payload({1, 4}, {1, 1}));
  EXPECT_TRUE(payload({2, 1, 3}, {3, 77, 1}));
  EXPECT_TRUE(payload({0, 4}, {9, 9}));
  EXPECT_TRUE(payload({1}, {7}));
  EXPECT_FALSE(payload({2, 4}, {1, 2}));
  EXPECT_TRUE(payload({2, 4}, {9, 2})) << "room between elements is no order";
  EXPECT_FALSE(payload({2, 4}, {0, 1}));
}

TEST(Exchange, OrdersThatDifferBetweenRanks_AreMixed_AndInNoDecision) {
  const auto rank = [](std::vector<std::int64_t> strides) {
    Inputs in;
    return in.tensor("x", {5, 10}).strides("x", strides).boolean("b", true).build();
  };
  const Observation plain = rank({10, 1}), turned = rank({1, 5});
  const auto order = [](const std::vector<Observation>& ranks) {
    return joint_of(ranks).sources[1].order;
  };
  EXPECT_EQ(order({plain, plain}), 0);
  EXPECT_EQ(order({turned, turned}), turned.orders[1]);
  EXPECT_EQ(order({plain, turned}), kMixedOrder);
  EXPECT_EQ(order({turned, plain, turned}), kMixedOrder);
  EXPECT_EQ(joint_of({turned, turned}).sources[0].order, kNoOrder) << "of a bool";
  EXPECT_EQ(decide(joint_of({plain, turned}), {}), decide(joint_of({plain, plain}), {}));
  EXPECT_EQ(joined_state(joint_of({plain, turned}), {}, true),
            joined_state(joint_of({plain, plain}), {}, true));
}

TEST(Exchange, OrderOfRanksThatLackTheTensor_DoesNotCount) {
  const Observation none = Inputs().boolean("b", true).build();
  const Observation number = Inputs().boolean("b", true).integer("x", 3).build();
  const Observation turned = Inputs()
                                 .boolean("b", true)
                                 .tensor("x", {5, 10})
                                 .strides("x", std::vector<std::int64_t>{1, 5})
                                 .build();
  const Observation plain = Inputs().boolean("b", true).tensor("x", {5, 10}).build();
  const auto order = [](const std::vector<Observation>& ranks) {
    return joint_of(ranks).sources[1].order;
  };
  EXPECT_EQ(order({none, turned, number}), turned.orders[1]);
  EXPECT_EQ(order({none, turned, plain}), kMixedOrder);
  EXPECT_EQ(order({none, plain}), 0);
  EXPECT_EQ(order({none, number}), kNoOrder);
}

TEST(Exchange, AnotherLayout_JoinsToNothing_WhichNobodyCanRead) {
  const Observation mine = wide(0, 3);
  const Observation other = wide(0, 4);
  const auto all =
      std::make_shared<const Dictionary>(roster_of(other, {}, true, Dictionary()).names);
  EXPECT_TRUE(join_columns(list_payload(mine), list_payload(other)).empty());
  EXPECT_TRUE(join_columns(list_payload(mine), mixed_payload(mine, *all, nullptr)).empty());
  EXPECT_TRUE(join_columns({}, list_payload(other)).empty());
  EXPECT_TRUE(join_columns(list_payload(mine), {}).empty());
  EXPECT_FALSE(read_list_payload(list_payload(other), mine.list, nullptr));
  EXPECT_FALSE(read_list_payload({}, mine.list, nullptr));
  EXPECT_FALSE(read_mixed_payload(list_payload(other), all, nullptr));
  EXPECT_TRUE(read_mixed_payload(mixed_payload(mine, *all, nullptr), all, nullptr));
}

void mutate(Random& random, Bytes& bytes) {
  for (int i = 1 + below(random, 4); i > 0; --i)
    bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
  if (below(random, 4) == 0) bytes.resize(random() % (bytes.size() + 1));
}

/// All that is made of a joined payload.
void use(const JointObservation& joint, const FrameState& own) {
  for (const auto consistency : {Consistency::SameGraph, Consistency::SharedSizes}) {
    const DecisionConfig config{.consistency = consistency};
    (void)find_conflict(joint, config);
    (void)decision_text(decide(joint, config));
    (void)known_donor(joint);
  }
  (void)joined_state(joint, own, true);
}

TEST(Exchange, Garbage_NeverCrashes_AndIsRefusedOrHarmless) {
  int refused = 0;
  int harmless = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const bool mixed = seed % 2 == 0;
    const Job job(random, mixed, 3);
    const auto dictionary = std::make_shared<const Dictionary>(job.names());
    const Payloads payloads =
        mixed ? job.mixed_payloads(*dictionary, seed % 4 == 0) : job.list_payloads();
    Bytes bytes = join_columns(payloads[0], payloads[1]);
    mutate(random, bytes);
    const Bytes joined =
        seed % 3 == 0 ? join_columns(bytes, payloads[2]) : join_columns(payloads[2], bytes);
    EXPECT_TRUE(Columns::of(bytes) || joined.empty());
    const auto joint = mixed ? read_mixed_payload(joined, dictionary, &job.states[0])
                             : read_list_payload(joined, job.ranks[0].list, &job.states[0]);
    ++(joint ? harmless : refused);
    if (joint) use(*joint, job.states[0]);
    (void)rank_table_values(join_rank_tables(bytes, payloads[2]));
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(harmless, 500);
}

TEST(Roster, AnyTree_TellsWhatDiffers_AndGivesTheUnionOfNewNames) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Job job(random, true, 2 + below(random, 6));
    Payloads payloads;
    bool lists = false;
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      payloads.push_back(encode(roster_of(job.ranks[r], job.states[r], true, Dictionary())));
      lists |= job.ranks[r].list->digest() != job.ranks[0].list->digest();
    }
    Bytes joined = payloads[0];
    for (std::size_t r = 1; r < payloads.size(); ++r) joined = join_rosters(joined, payloads[r]);
    Bytes other = payloads.back();
    for (std::size_t r = payloads.size() - 1; r-- > 0;) other = join_rosters(payloads[r], other);
    ASSERT_EQ(joined, other);
    const auto roster = decode_roster(joined);
    ASSERT_TRUE(roster);
    EXPECT_EQ(roster->list.differs, lists);
    EXPECT_FALSE(roster->dictionary.differs);
    EXPECT_EQ(roster->names, job.names());
    const Dictionary all(roster->names);
    for (std::size_t r = 0; r < job.ranks.size(); ++r)
      EXPECT_TRUE(roster_of(job.ranks[r], job.states[r], true, all).names.empty());
    Bytes garbage = joined;
    mutate(random, garbage);
    if (!decode_roster(garbage)) {
      EXPECT_TRUE(join_rosters(garbage, joined).empty());
      EXPECT_TRUE(join_rosters(joined, garbage).empty());
    }
  }
}

TEST(RankTable, AnyTree_GivesOneLinePerValueByLowestRank) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int size = 1 + below(random, 200);
    std::vector<Bytes> payloads;
    std::map<std::string, RankSet> expected;
    for (int r = 0; r < size; ++r) {
      std::optional<std::string> value;
      if (below(random, 4) != 0) value = std::string(1, static_cast<char>(below(random, 128)));
      if (value) expected[*value].insert(RankSet::of({r}));
      payloads.push_back(rank_table_payload({r}, value));
    }
    Bytes joined = payloads[0];
    for (int r = 1; r < size; ++r)
      joined = join_rank_tables(joined, payloads[static_cast<std::size_t>(r)]);
    const auto values = rank_table_values(joined);
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
}  // namespace lockstep::worker::exchange_test
