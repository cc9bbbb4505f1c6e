// What a rank of this host has posted since the last note, read from its memory. Used by
// carrier.cpp alone.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/lines/note.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {

/// Bytes of entries that a note tells of a rank at most; the rest comes in the next.
inline constexpr std::size_t kMostNoteBytes = 256 << 10;

/// Of one rank. One thread.
class NoteSource {
 public:
  /// `memory` outlives it, and gives back only entries that have been told (Carrier).
  NoteSource(Rank rank, const PostsMemory& memory) : rank_(rank), memory_(memory) {}

  /// nullopt: nothing is new. `state`: of its process, seen before this call.
  [[nodiscard]] std::optional<RankNote> next(PeerState state, Instant now);

 private:
  struct Line {
    std::uint64_t told = 0, handed = 0;
    Window entries, values;
  };
  [[nodiscard]] bool tell_entries(RankNote& note);

  Rank rank_;
  const PostsMemory& memory_;
  std::vector<Line> lines_;
  std::uint32_t texts_told_ = 1;  // 0 is no text
  /// Of the last standing that was told.
  struct Told {
    PeerState state = PeerState::Unseen;
    std::uint64_t moves = 0;
    std::int32_t issuing = 0;
    std::uint32_t beside = 0, takes_from_any = 0;
    std::int64_t alive_until = 0;
    auto operator<=>(const Told&) const = default;
  };
  std::optional<Told> told_;
};

}  // namespace lockstep::lines
