// Who builds what: the table of compile units, and the kinds of processors.
#include <random>

#include <gtest/gtest.h>

#include <lockstep/worker/compile/toolchain/toolchain_key.h>
#include <lockstep/worker/compile/toolchain/unit_table.h>

namespace lockstep::worker::unit_table_test {
namespace {

const std::string kDigest(64, 'a');

shapes::Fingerprint key(std::uint64_t n) { return {n, n * n}; }

UnitTable random_table(std::mt19937_64& random, int rank) {
  UnitTable table;
  for (std::uint64_t k = 0; k < 6; ++k) {
    if (random() % 3 == 0) continue;
    UnitRow& row = table[key(k)];
    if (random() % 4 != 0) row.able = RankSet::of(Rank{rank});
    if (!row.able.empty() && random() % 3 == 0) row.failed = row.able;
    row.rejected = random() % 8 == 0;
    if (random() % 4 == 0)
      row.artifact = {Rank{rank}, random() % 1000, std::string(64, "abc"[random() % 3])};
  }
  return table;
}

TEST(UnitTable, Join_OfAnyNeighbours_IsTheSame) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    Bytes t[3];
    for (int r = 0; r < 3; ++r) t[r] = encode(random_table(random, r));
    const Bytes left = join_units(join_units(t[0], t[1]), t[2]);
    EXPECT_EQ(left, join_units(t[0], join_units(t[1], t[2])));
    EXPECT_EQ(encode(*decode_units(left)), left);
  }
}

TEST(UnitTable, Join_TakesTheArtifactOfTheLowestRank) {
  UnitTable low, high;
  low[key(1)].artifact = {Rank{1}, 10, kDigest};
  high[key(1)].artifact = {Rank{2}, 20, std::string(64, 'b')};
  const auto joint = decode_units(join_units(encode(low), encode(high)));
  EXPECT_EQ(joint->at(key(1)).artifact, low[key(1)].artifact);
}

TEST(UnitTable, BytesThatWereCutOrAltered_AreNoTable) {
  UnitTable table;
  table[key(1)] = {RankSet::all(4), RankSet::of(Rank{2}), true, UnitArtifact{Rank{1}, 10, kDigest}};
  const Bytes whole = encode(table);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(decode_units(std::span(whole).first(length))) << length;
  Bytes other = whole;
  other[0] = std::byte{9};
  EXPECT_FALSE(decode_units(other)) << "another version";
  EXPECT_TRUE(join_units(whole, other).empty());
  EXPECT_FALSE(decode_units(join_units(join_units(whole, other), whole)));
}

TEST(UnitTable, Deal_IsEvenAndSkipsWhatIsThere) {
  UnitTable table;
  for (std::uint64_t k = 0; k < 8; ++k) table[key(k)].able = RankSet::all(3);
  table[key(7)].artifact = {Rank{0}, 1, kDigest};
  std::map<Rank, int> load;
  for (const auto& [unit, builder] : deal_units(table)) ++load[builder.value()];
  EXPECT_EQ(load, (std::map<Rank, int>{{Rank{0}, 3}, {Rank{1}, 2}, {Rank{2}, 2}}));
}

TEST(UnitTable, Deal_HandsOnUntilAllHaveFailed_ToRanksWithoutAFailureFirst) {
  UnitTable table;
  table[key(1)].able = table[key(2)].able = RankSet::all(3);
  table[key(2)].failed = RankSet::of(Rank{1});
  std::vector<Rank> order;
  for (int round = 0; round < 3; ++round) {
    const auto builder = deal_units(table).at(key(1));
    ASSERT_TRUE(builder);
    EXPECT_FALSE(table[key(1)].failed.contains(*builder)) << "again to one that failed";
    order.push_back(*builder);
    table[key(1)].failed.insert(RankSet::of(*builder));
  }
  EXPECT_EQ(order.back(), Rank{1}) << "it failed at another unit, so it comes last";
  EXPECT_FALSE(deal_units(table).at(key(1)));
  EXPECT_TRUE(deal_units(table).at(key(2)));
}

TEST(UnitTable, Deal_WithoutACompilerAnywhere_HasNobody) {
  UnitTable table;
  table[key(1)];
  EXPECT_FALSE(deal_units(table).at(key(1)));
}

TEST(ProcessorKind, IsTheModelAndItsInstructions_NotTheClockOrTheCore) {
  const std::string one =
      "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 207\nmodel name\t: Xeon\n"
      "cpu MHz\t\t: 2300.000\nflags\t\t: fpu avx2\n\n";
  const std::string two =
      "processor\t: 7\nvendor_id\t: GenuineIntel\nmodel\t\t: 207\nmodel name\t: Other\n"
      "cpu MHz\t\t: 1200.5\nflags\t\t: fpu avx2\n\n";
  EXPECT_EQ(processor_kind(one), processor_kind(one + two));
  std::string older = one;
  older.replace(older.find(" avx2"), 5, "");
  EXPECT_NE(processor_kind(one), processor_kind(older));
  EXPECT_EQ(processor_kind("no colon\n:\n\n"), "");
  EXPECT_FALSE(processor_kind().empty()) << "of this host";
}

}  // namespace
}  // namespace lockstep::worker::unit_table_test
