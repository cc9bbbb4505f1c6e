// Who writes which piece, found along a tree: against a plan by all pieces of all ranks, and what
// each rank hears for it.
#include <algorithm>

#include "spread_state.h"
#include "thread_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/worker/files/checkpoint/piece_plan.h>

namespace lockstep::worker::piece_plan_test {

using Pieces = std::vector<Piece>;

struct Planned {
  std::vector<std::vector<bool>> writes;  // by rank
  std::vector<std::string> errors, saves;
  std::vector<std::size_t> heard;  // bytes
};

Planned planned(const std::vector<Pieces>& all) {
  const std::size_t n = all.size();
  Planned out{std::vector<std::vector<bool>>(n), std::vector<std::string>(n),
              std::vector<std::string>(n), std::vector<std::size_t>(n)};
  on_threads(static_cast<int>(n), [&](ThreadRanks& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank().value);
    PiecePlan plan(ranks.rank(), rank == 0 ? "a save" : "", all[rank]);
    EXPECT_TRUE(ranks.talk(plan));
    const auto writes = plan.writes();
    if (writes)
      out.writes[rank] = *writes;
    else
      out.errors[rank] = writes.error().text();
    out.saves[rank] = plan.save();
    out.heard[rank] = ranks.heard();
  });
  return out;
}

/// By all pieces, in rank order.
std::vector<std::vector<bool>> naive(const std::vector<Pieces>& all) {
  std::vector<std::vector<bool>> out(all.size());
  Pieces seen;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (const Piece& piece : all[rank]) {
      const bool fresh = std::find(seen.begin(), seen.end(), piece) == seen.end();
      if (fresh) seen.push_back(piece);
      out[rank].push_back(fresh);
    }
  return out;
}

std::vector<Pieces> spread_pieces(std::uint64_t seed, int ranks) {
  std::mt19937_64 engine(seed);
  auto tensors = random_tensors(engine);
  for (GlobalTensor& tensor : tensors) spread(tensor, ranks, engine);
  std::vector<Pieces> all;
  for (int rank = 0; rank < ranks; ++rank) {
    auto state = SpreadState::of(tensors, rank, seed, true);
    auto pieces = pieces_of(leaves_of(state));
    EXPECT_TRUE(pieces);
    std::shuffle(pieces->begin(), pieces->end(), engine);
    all.push_back(*std::move(pieces));
  }
  return all;
}

TEST(PiecePlan, RandomSpreads_AreWrittenByTheLowestRankThatHasThem) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto all = spread_pieces(seed, 1 + static_cast<int>(seed % 9));
    const Planned plan = planned(all);
    EXPECT_EQ(plan.errors, std::vector<std::string>(all.size()));
    EXPECT_EQ(plan.writes, naive(all));
    EXPECT_EQ(plan.saves, std::vector<std::string>(all.size(), "a save"));
  }
}

TEST(PiecePlan, APieceThatIsMissingOrOfOtherSizes_IsTheSameErrorOnAllRanks) {
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 engine(seed);
    auto all = spread_pieces(seed, 2 + static_cast<int>(seed % 6));
    Pieces& one = all[engine() % all.size()];
    if (one.empty()) continue;
    Piece& piece = one[engine() % one.size()];
    const Piece before = piece;
    if (seed % 2 == 0)
      piece.global.push_back(7), piece.box.sizes.push_back(7), piece.box.start.push_back(0);
    else
      one.erase(one.begin() + (&piece - one.data()));
    // Somebody else has it, whole.
    std::size_t others = 0, of_name = 0;
    for (const Pieces& pieces : all)
      for (const Piece& other : pieces)
        others += other == before, of_name += other.name == before.name;
    const bool fine =
        seed % 2 == 0 ? of_name == 1 : others > 0 || of_name == 0 || before.elements() == 0;
    const Planned plan = planned(all);
    for (const std::string& error : plan.errors) EXPECT_EQ(error, plan.errors[0]);
    EXPECT_EQ(plan.errors[0].empty(), fine) << plan.errors[0];
    refused += !fine;
    if (!fine) {
      EXPECT_NE(plan.errors[0].find("\"" + before.name + "\""), std::string::npos)
          << plan.errors[0];
    }
  }
  EXPECT_GT(refused, 20);
}

TEST(PiecePlan, OtherSizes_AreNamedWithTheLowestRanks) {
  const Piece narrow{"w", DType::F32, {4}, Box::whole({4})},
      wide{"w", DType::F32, {5}, Box::whole({5})};
  const Planned plan = planned({{}, {narrow}, {narrow}, {wide}, {wide}});
  for (const std::string& error : plan.errors) {
    EXPECT_EQ(error, plan.errors[0]);
    EXPECT_NE(error.find("rank 1 has \"w\" of f32 [4], rank 3 has \"w\" of f32 [5]"),
              std::string::npos)
        << error;
  }
}

/// So many tensors, each a row per rank, or the same on all.
std::vector<Pieces> rows(int ranks, int tensors, bool sharded) {
  std::vector<Pieces> out(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int t = 0; t < tensors; ++t) {
      Piece piece{
          fmt::format("layer.{}.weight", t), DType::F32, {ranks, 8}, Box::whole({ranks, 8})};
      if (sharded) piece.box = {{rank, 0}, {1, 8}};
      out[static_cast<std::size_t>(rank)].push_back(std::move(piece));
    }
  return out;
}

TEST(PiecePlan, WhatARankHears_DoesNotGrowWithRanksTimesPieces) {
  constexpr int kTensors = 64;
  const std::size_t own = pieces_bytes(rows(4, kTensors, true)[0]).size();
  for (const int ranks : {4, 32}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    // The same on all: at most what two children say and a bit per piece.
    const Planned same = planned(rows(ranks, kTensors, false));
    for (const std::size_t heard : same.heard) EXPECT_LT(heard, 3 * own);
    // A part on each: a leaf hears bits alone, and half of the ranks are leaves, or nearly so.
    Planned parts = planned(rows(ranks, kTensors, true));
    std::sort(parts.heard.begin(), parts.heard.end());
    EXPECT_LT(parts.heard[static_cast<std::size_t>(ranks) / 2 - 1], own / 10);
    EXPECT_LT(parts.heard[static_cast<std::size_t>(ranks) * 3 / 4 - 1], 5 * own);
    std::size_t total = 0;
    for (const std::size_t heard : parts.heard) total += heard;
    // In sum a piece goes up the tree's height, not to all.
    EXPECT_LT(total, own * static_cast<std::size_t>(ranks) * 6);
  }
}

TEST(PiecePlan, WordsThatComeDamaged_AreAnErrorAndNoMore) {
  const auto all = rows(3, 2, true);
  PiecePlan child(Rank{0}, "a save", all[0]);
  const Bytes word = child.word();
  for (std::size_t at = 0; at <= word.size(); ++at)
    for (const bool cut : {true, false}) {
      if (!cut && at == word.size()) continue;
      Bytes damaged = word;
      if (cut)
        damaged.resize(at);
      else
        damaged[at] ^= std::byte{0x41};
      PiecePlan head(Rank{1}, "", all[1]);
      head.heard(true, damaged);
      head.heard(false, PiecePlan(Rank{2}, "", all[2]).word());
      (void)head.word();
      const Bytes answer = head.answer(true);
      PiecePlan again(Rank{0}, "a save", all[0]);
      (void)again.word();
      again.answered(answer);
      EXPECT_EQ(again.writes().has_value(), head.writes().has_value());
      if (cut && at < word.size()) {
        EXPECT_FALSE(head.writes()) << at;
      }
    }
}

}  // namespace lockstep::worker::piece_plan_test
