#include <algorithm>

#include <lockstep/collectives/lines/note_source.h>

namespace lockstep::lines {
namespace {

constexpr Duration kLongestAlive = std::chrono::hours(24 * 365);

}  // namespace

// Reads `moves` first: then, as in the memory itself, `moves` is never newer than the waits and
// entries.
std::optional<RankNote> NoteSource::next(PeerState state, Instant now) {
  PostsHeader& header = memory_.header();
  const Told is{state,
                header.moves.load(std::memory_order_acquire),
                header.issuing.load(),
                header.beside.load(),
                header.takes_from_any.load(),
                header.alive_until.load(std::memory_order_relaxed)};
  RankNote note{.rank = rank_};
  RankNote::Standing standing{
      .state = is.state,
      .gone = header.gone_text.load(),
      .moves = is.moves,
      .issuing = std::max(is.issuing, 0),
      .has_threads_beside = is.beside != 0,
      .takes_from_any = is.takes_from_any != 0,
      .alive = std::clamp(Instant(is.alive_until) - now, Duration{0}, kLongestAlive)};
  for (const WaitSlot& slot : header.waits)
    if (const auto wait = read_wait(slot))
      standing.waits.push_back({wait->in, std::max(now - wait->since, Duration{0})});
  const std::uint32_t opened = std::min(header.lines.load(std::memory_order_acquire), kTableLines);
  note.first_line = static_cast<std::uint32_t>(lines_.size());
  for (std::uint32_t i = note.first_line; i < opened; ++i) {
    const LineSlot& slot = header.table[i];
    note.opened.push_back({{slot.high, slot.low}, slot.members, slot.name});
    lines_.emplace_back();
  }
  note.is_whole = add_entries(note);
  note.texts_begin = texts_told_;
  const std::uint32_t end = header.texts_end.load(std::memory_order_acquire);
  if (end <= kFixed - kTexts) note.texts.assign(memory_.texts() + texts_told_, end - texts_told_);
  texts_told_ = end;
  if (note.is_whole && told_ != is) {
    note.standing = std::move(standing);
    told_ = is;
  }
  if (note.is_whole && note.opened.empty() && note.came.empty() && note.texts.empty() &&
      !note.standing)
    return std::nullopt;
  return note;
}

bool NoteSource::add_entries(RankNote& note) {
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < lines_.size(); ++i) {
    Line& line = lines_[i];
    const WaitMoment::Counts counts = memory_.counts_of(i);
    if (counts.posted == line.told && counts.handed == line.handed) continue;
    RankNote::Came came{i, line.told, 0, {}};
    for (; line.told < counts.posted && bytes < kMostNoteBytes; ++line.told) {
      auto entry = memory_.entry(i, line.told, line.entries, line.values);
      if (!entry) break;
      bytes += sizeof(Posted) + entry->values.size() * 8;
      came.entries.push_back(*std::move(entry));
    }
    came.handed = line.handed = std::min(counts.handed, line.told);
    note.came.push_back(std::move(came));
    memory_.header().table[i].carried.store(line.told, std::memory_order_release);
    if (line.told < counts.posted) return false;
  }
  return true;
}

}  // namespace lockstep::lines
