// Guards as text: what is read and what is refused; and as part of a version, which then fits only
// where they hold, on all ranks alike.
#include <map>
#include <random>

#include "seeded_ranks.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agree/exchange/source_guard.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker::source_guard_test {
namespace {

using collectives::Communicator;

/// x: [s0, 16], y: [s1, s2 unbacked], n: s3, k: int 4, and names that look like something else.
Decision sample() {
  Decision decision;
  const auto source = [&](std::string name, Kind kind, std::vector<DimDecision> dims) {
    decision.sources.push_back(
        {{std::move(name), kind, DType::F32, static_cast<std::uint32_t>(dims.size())},
         std::move(dims)});
  };
  const auto symbol = [&](std::string name, bool unbacked = false) {
    decision.symbols.push_back({.source = std::move(name), .unbacked = unbacked});
    return DimDecision{.is_symbol = true,
                       .symbol = static_cast<std::uint32_t>(decision.symbols.size() - 1)};
  };
  source("batch.x[0]", Kind::Tensor, {symbol("batch.x[0].size(0)"), {.value = 16}});
  source("y", Kind::Tensor, {symbol("y.size(0)"), symbol("y.size(1)", true)});
  source("n", Kind::Int, {symbol("n")});
  source("k", Kind::Int, {{.value = 4}});
  source("n s+1", Kind::Int, {symbol("n s+1")});
  source("Größe", Kind::Int, {symbol("Größe")});
  source("lr", Kind::Float, {});
  source("train", Kind::Bool, {{.value = 1}});
  return decision;
}

std::string read(std::string_view condition) {
  const Decision decision = sample();
  const auto guard = read_guard(condition, {"k.c", 7}, decision);
  if (!guard) return guard.error().text();
  if (!*guard) return "always";
  EXPECT_EQ((*guard)->where.text(), "k.c:7");
  return (*guard)->predicate.text(decision.source_namer());
}

TEST(SourceGuard, Conditions_AreReadInTheNamesOfTheInputs) {
  EXPECT_EQ(read("batch.x[0].size(0) % 8 == 0"), "Mod(batch.x[0].size(0), 8) == 0");
  EXPECT_EQ(read("batch.x[0].size(0)*2==y.size(0)"), "2*batch.x[0].size(0) == y.size(0)");
  EXPECT_EQ(read("n >= 3"), "n >= 3");
  EXPECT_EQ(read("n s+1 > n"), "n < n s+1");
  EXPECT_EQ(read("Größe != 0"), "Größe != 0");
  EXPECT_EQ(read(" Min(n, 2*(y.size(0) - 1)) < batch.x[0].size(1) "),
            read("Min(2*y.size(0)-2, n) < 16"));
  EXPECT_EQ(read("y.size(0) // 4 % 2 == 1"), read("Mod(y.size(0) // 4, 2) == 1"));
  EXPECT_EQ(read("batch.x[0].size(1) % k == 0"), "always");
  EXPECT_EQ(read("n - n == 0"), "always");
}

TEST(SourceGuard, WhatCannotBeRead_IsSaidWithThePlaceAndTheNames) {
  const std::string names =
      "write it like \"x.size(0) % 8 == 0\", about the sizes and ints of this version: "
      "batch.x[0].size(0), batch.x[0].size(1), y.size(0), y.size(1), n, k and 2 more";
  EXPECT_EQ(read("n % 8 = 0"),
            "BAD_INPUT: the guard \"n % 8 = 0\" at k.c:7 cannot be read from \"= 0\" on; " + names);
  const std::map<std::string, std::string> others{
      {"z.size(0) == 1", "from \"z.size(0) == 1\" on"},
      {"y == 1", "from \"y == 1\" on"},
      {"y.size(2) == 1", "from \"y.size(2) == 1\" on"},
      {"n.size(0) == 1", "from \"n.size(0) == 1\" on"},
      {"nn == 1", "from \"nn == 1\" on"},
      {"s0 == 1", "from \"s0 == 1\" on"},
      {"lr == 1", "from \"lr == 1\" on"},
      {"train == 1", "from \"train == 1\" on"},
      {"1 < n < 3", "from \"< 3\" on"},
      {"n == ", "to its end"},
      {"n", "to its end"},
      {"", "to its end"},
      {"n == 99999999999999999999", "from \"99999999999999999999\" on"}};
  for (const auto& [condition, place] : others)
    EXPECT_EQ(read(condition), "BAD_INPUT: the guard \"" + condition +
                                   "\" at k.c:7 cannot be read " + place + "; " + names);
  EXPECT_NE(read("9223372036854775807 * 9223372036854775807 > n").find("BAD_INPUT"),
            std::string::npos);
  EXPECT_NE(read(std::string(100000, '(')).find("BAD_INPUT"), std::string::npos);
}

TEST(SourceGuard, OfAnUnbackedSize_OrAgainstStaticSizes_IsRefused) {
  EXPECT_EQ(read("y.size(1) > 3"),
            "BAD_INPUT: the guard \"y.size(1) > 3\" at k.c:7 is about y.size(1), which is marked "
            "unbacked: no version may rely on its value; mark it dynamic instead");
  EXPECT_EQ(
      read("batch.x[0].size(1) % k == 1"),
      "BRANCH_DIVERGENCE: the guard \"batch.x[0].size(1) % k == 1\" at k.c:7 is false for every "
      "input of this version, in which batch.x[0].size(1) is 16, k is 4; a version can rely "
      "only on what its decision allows");
  const auto nowhere = read_guard("1 == 2", {}, Decision{});
  EXPECT_EQ(nowhere.error().text(),
            "BRANCH_DIVERGENCE: the guard \"1 == 2\" is false for every input of this version; a "
            "version can rely only on what its decision allows");
}

// ---- In a version

Observation rows(std::int64_t n) { return Inputs().tensor("x", {n, 3}).build(); }

struct Build {
  std::vector<std::string> guards;  // where a size is a symbol
  int made = 0;

  Result<Built> operator()(int, const Decision& decision) {
    ++made;
    Built built{decision.digest(), {}};
    if (decision.symbols.empty()) return built;
    for (const std::string& text : guards) {
      auto guard = read_guard(text, {"kernel.c", 41}, decision);
      if (!guard) return guard.error();
      if (*guard) built.guards.push_back(**guard);
    }
    return built;
  }
};

TEST(SourceGuard, Version_FitsWhereItsGuardsHoldOnEveryRank_AndNowhereElse) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRanks(3, seed).run([&](Communicator& group) {
      Agreement agreement(group, "world", {});
      std::mt19937_64 random(seed);  // the same on all ranks
      // What each version needs of every rank's number of rows.
      std::map<int, std::int64_t> factor;
      for (int call = 0; call < 25; ++call) {
        std::vector<std::int64_t> sizes(3);
        const std::int64_t step = std::array{1, 2, 4, 12}[random() % 4];
        for (auto& size : sizes) size = step * static_cast<std::int64_t>(2 + random() % 6);
        std::int64_t common = 1;
        for (const std::int64_t m : {4, 2})
          if (common == 1 && sizes[0] % m + sizes[1] % m + sizes[2] % m == 0) common = m;
        Build build{{"x.size(0) % " + std::to_string(common) + " == 0"}};
        const auto agreed = agreement.agree(
            "step", rows(sizes[static_cast<std::size_t>(group.rank().value)]), std::ref(build));
        ASSERT_TRUE(agreed) << agreed.error().text();
        if (agreed->run != Agreed::Run::Entry) continue;
        if (agreed->is_new && !agreed->decision->symbols.empty()) factor[agreed->entry] = common;
        if (factor.count(agreed->entry) == 0) continue;
        // It fits here, and where none was built nothing else would have been right.
        EXPECT_EQ(common % factor[agreed->entry], 0);
      }
      EXPECT_GT(factor.size(), 0U);
    });
  }
}

TEST(SourceGuard, FalseOnSomeRanks_IsABranchDivergenceOnAll_AndNothingIsCommitted) {
  std::vector<std::string> errors(4);
  SeededRanks(4, 5).run([&](Communicator& group) {
    const auto mine = static_cast<std::size_t>(group.rank().value);
    Agreement agreement(group, "world", {});
    Build build{{"x.size(0) >= 2", "x.size(0) % 8 == 0"}};
    const Observation seen = rows(mine % 2 == 0 ? 16 : 12);
    const auto agreed = agreement.agree("step", seen, std::ref(build));
    ASSERT_FALSE(agreed);
    errors[mine] = agreed.error().text();
    EXPECT_TRUE(agreement.frame("step").entries.empty());
    build.guards = {"x.size(0) % 4 == 0"};
    EXPECT_TRUE(agreement.agree("step", seen, std::ref(build)));
    // One rank misses, so no rank runs it.
    build.guards = {};
    const auto next = agreement.agree("step", rows(mine == 3 ? 14 : 16), std::ref(build));
    ASSERT_TRUE(next);
    EXPECT_TRUE(next->is_new);
    EXPECT_EQ(build.made, 3);
    const auto misfits = agreement.frame("step").explain(rows(14));
    EXPECT_TRUE(misfits.empty());  // the version without guards has taken the other's place
  });
  for (const std::string& error : errors)
    EXPECT_EQ(
        error,
        "BRANCH_DIVERGENCE: step: the version that was built relies on Mod(x.size(0), 8) == 0 "
        "(kernel.c:41), which holds on ranks 0,2 and not on ranks 1,3; build without that "
        "condition where the sizes of some rank may break it, or pad the inputs [ranks 0,2: "
        "x.size(0) = 16: true; ranks 1,3: x.size(0) = 12: false]");
}

TEST(SourceGuard, OthersOnAnotherRank_AreOtherPrograms) {
  SeededRanks(3, 6).run([&](Communicator& group) {
    Agreement agreement(group, "world", {});
    Build build{{group.rank().value == 1 ? "x.size(0) % 4 == 0" : "x.size(0) % 2 == 0"}};
    const auto agreed = agreement.agree("step", rows(4 + 4 * group.rank().value), std::ref(build));
    ASSERT_FALSE(agreed);
    EXPECT_EQ(agreed.error().code, Code::GraphDivergence);
    EXPECT_NE(agreed.error().text().find("guard Mod(x.size(0), 4) == 0 at kernel.c:41"),
              std::string::npos)
        << agreed.error().text();
  });
}

}  // namespace
TEST(SourceGuard, UniformSizes_AreReadInTheNamesOfTheInputs) {
  const Decision decision = sample();
  const auto read = [&](std::string_view size) {
    const auto uniform = read_uniform(size, "all_reduce", {"k.c", 7}, decision);
    if (!uniform) return uniform.error().text();
    if (!*uniform) return std::string("a number");
    EXPECT_EQ((*uniform)->where.text(), "k.c:7");
    EXPECT_EQ((*uniform)->what, "all_reduce");
    EXPECT_EQ((*uniform)->group, "");
    return (*uniform)->expr.text(decision.source_namer());
  };
  EXPECT_EQ(read("batch.x[0].size(0) * 2"), "2*batch.x[0].size(0)");
  EXPECT_EQ(read("Max(n, y.size(0)) - n"), read(" Max(n,y.size(0))-n "));
  EXPECT_EQ(read("batch.x[0].size(1) * k"), "a number");
  const std::string names =
      "write it like \"x.size(0) * 2\", about the sizes and ints of this version: "
      "batch.x[0].size(0), batch.x[0].size(1), y.size(0), y.size(1), n, k and 2 more";
  EXPECT_EQ(
      read("n == 3"),
      "BAD_INPUT: the uniform size \"n == 3\" at k.c:7 cannot be read from \"== 3\" on; " + names);
  EXPECT_EQ(read(""),
            "BAD_INPUT: the uniform size \"\" at k.c:7 cannot be read to its end; " + names);
  EXPECT_EQ(
      read("y.size(1)"),
      "BAD_INPUT: the uniform size \"y.size(1)\" at k.c:7 is about y.size(1), which is marked "
      "unbacked: no version may rely on its value; mark it dynamic instead");
}

}  // namespace lockstep::worker::source_guard_test
