// The bytes of notes.
#include <random>

#include <gtest/gtest.h>

#include <lockstep/collectives/lines/note.h>

namespace lockstep::lines {
namespace {

Entry entry_of(std::uint64_t equal, std::vector<std::int64_t> values) {
  Entry entry;
  entry.posted.equal = equal;
  entry.posted.to = static_cast<std::uint32_t>(values.size());
  entry.values = std::move(values);
  return entry;
}

Note full_note() {
  RankNote rank{.rank = Rank{3}, .texts_begin = 5, .texts = std::string("train.py\0", 9)};
  rank.opened.push_back({{1, 2}, 5, 6});
  rank.came.push_back({0, 7, 8, {entry_of(9, {-1, 2}), entry_of(4, {}), entry_of(4, {})}});
  rank.standing = {.state = PeerState::Gone,
                   .gone = 4,
                   .moves = 11,
                   .issuing = 2,
                   .has_threads_beside = true,
                   .takes_from_any = true,
                   .alive = std::chrono::seconds(3),
                   .waits = {{{{1, 2}, 7}, std::chrono::milliseconds(4)}}};
  return {{rank}, {{{3, 4}, {Code::Stuck, "they wait"}}}};
}

TEST(Note, ComesBackAsItWas_AndEntriesThatCameBeforeAreShort) {
  NoteWriter writer;
  NoteReader reader;
  const Note note = full_note();
  const Bytes first = writer.encode(note), again = writer.encode(note);
  EXPECT_LT(again.size() + 2 * sizeof(Posted), first.size()) << "two distinct entries";
  for (const Bytes& bytes : {first, again}) {
    const auto read = reader.decode(NoteWriter::with_marks({7, 8}, bytes));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->marks.mark, 7U);
    EXPECT_EQ(read->marks.heard, 8U);
    const RankNote& rank = read->note.ranks.at(0);
    EXPECT_EQ(rank.texts, note.ranks[0].texts);
    EXPECT_EQ(rank.opened.at(0).key, (LineKey{1, 2}));
    ASSERT_EQ(rank.came.at(0).entries.size(), 3U);
    EXPECT_EQ(rank.came[0].entries[0].posted.equal, 9U);
    EXPECT_EQ(rank.came[0].entries[0].values, (std::vector<std::int64_t>{-1, 2}));
    EXPECT_EQ(rank.came[0].entries[2].posted.equal, 4U);
    ASSERT_TRUE(rank.standing);
    EXPECT_EQ(rank.standing->state, PeerState::Gone);
    EXPECT_TRUE(rank.standing->has_threads_beside);
    EXPECT_TRUE(rank.standing->takes_from_any);
    EXPECT_EQ(rank.standing->waits.at(0).age, std::chrono::milliseconds(4));
    EXPECT_EQ(read->note.refused.at(0).said.message, "they wait");
  }
}

TEST(Note, WhateverBytesCome_AreANoteOrNone) {
  const Bytes sound = NoteWriter::with_marks({1, 1}, NoteWriter().encode(full_note()));
  for (std::size_t end = 0; end < sound.size(); ++end)
    EXPECT_FALSE(NoteReader().decode(std::span(sound).first(end))) << end;
  std::mt19937_64 random(1);
  int notes = 0;
  for (int run = 0; run < 200'000; ++run) {
    Bytes bytes = sound;
    for (int change = 1 + static_cast<int>(random() % 3); change > 0; --change)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    notes += NoteReader().decode(bytes) ? 1 : 0;
  }
  EXPECT_GT(notes, 0) << "some changes are of no consequence";
  EXPECT_LT(notes, 200'000);
}

}  // namespace
}  // namespace lockstep::lines
