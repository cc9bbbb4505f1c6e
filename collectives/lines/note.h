// Notes: what a host's head sends to other heads about the ranks of its host, and how it is
// encoded. The reader trusts nothing: it checks lengths, numbers and texts, and that no byte is
// left over. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/posts.h>

namespace lockstep::lines {

/// What one rank has posted since the last note.
struct RankNote {
  Rank rank{};
  /// New bytes of the rank's texts; `texts_begin` is the offset of these bytes in the texts.
  std::uint32_t texts_begin = 0;
  std::string texts;
  /// Newly opened lines; `first_line` is the number of the first in the rank's table.
  struct Opened {
    LineKey key;
    TextId members = 0, name = 0;
  };
  std::uint32_t first_line = 0;
  std::vector<Opened> opened;
  /// New entries of a line; `first` is the number of the first.
  struct Came {
    std::uint32_t line = 0;
    std::uint64_t first = 0, handed = 0;
    std::vector<Entry> entries;
  };
  std::vector<Came> came;

  /// False: more entries follow in the next note, so the rank's state is not sent yet.
  bool is_whole = true;
  /// State of the rank now; nullopt: unchanged.
  struct Standing {
    PeerState state = PeerState::Running;
    TextId gone = 0;
    std::uint64_t moves = 0;
    std::int32_t issuing = 0;
    bool has_threads_beside = false, takes_from_any = false;
    Duration alive{};  // time for which the rank is still known to move on
    struct Wait {
      Waiting in;
      Duration age{};
    };
    std::vector<Wait> waits;
  };
  std::optional<Standing> standing;
};

/// One note of a host.
struct Note {
  /// Ranks with something new.
  std::vector<RankNote> ranks;
  struct Refused {
    LineKey key;
    Status said;
  };
  std::vector<Refused> refused;
};

/// Marks of a note for one reader. `mark`: the note's number. `heard`: the last mark of the
/// reader's host that the writer had received before it read its ranks' memory.
struct NoteMarks {
  std::uint64_t mark = 0, heard = 0;
};

using PostedBytes = std::array<char, sizeof(Posted)>;

/// Encodes notes. An entry that repeats an earlier one is sent as a number.
class NoteWriter {
 public:
  [[nodiscard]] Bytes encode(const Note& note);
  [[nodiscard]] static Bytes with_marks(const NoteMarks& marks, std::span<const std::byte> note);

 private:
  std::map<PostedBytes, std::uint32_t> known_;  // numbers of earlier entries
};

/// Decodes the notes of one writer, in their order.
class NoteReader {
 public:
  struct Read {
    NoteMarks marks;
    Note note;
  };
  /// nullopt: the note is malformed.
  [[nodiscard]] std::optional<Read> decode(std::span<const std::byte> bytes);

 private:
  std::vector<Posted> known_;
};

}  // namespace lockstep::lines
