// What a rank of this host has posted since the last note, read from its memory. Used by
// carrier.cpp alone.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/lines/note.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {

/// Once a rank's entries in a note reach this many bytes, the other entries follow in the next
/// note.
inline constexpr std::size_t kMostNoteBytes = 256 << 10;

/// Reads the posts of one rank. Used by one thread.
class NoteSource {
 public:
  /// `memory` must outlive the object. Its entries are freed only after notes have carried them
  /// (Carrier).
  NoteSource(Rank rank, const PostsMemory& memory) : rank_(rank), memory_(memory) {}

  /// Returns what is new; nullopt: nothing is new. `state` is that of the rank's process, read
  /// before this call.
  [[nodiscard]] std::optional<RankNote> next(PeerState state, Instant now);

 private:
  struct Line {
    std::uint64_t told = 0, handed = 0;
    Window entries, values;
  };
  [[nodiscard]] bool add_entries(RankNote& note);

  Rank rank_;
  const PostsMemory& memory_;
  std::vector<Line> lines_;
  std::uint32_t texts_told_ = 1;  // offset 0 is no text
  /// The values of the last standing that was sent.
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
