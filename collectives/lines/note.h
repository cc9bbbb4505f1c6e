// What the head of a host tells those of others about the ranks of its host, and its bytes. Reading
// takes nothing on trust: lengths, numbers and texts are checked, no byte is left over. Pure.
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

/// What one rank has posted since the note before.
struct RankNote {
  Rank rank{};
  /// Bytes of its texts, from `texts_begin` of its memory on.
  std::uint32_t texts_begin = 0;
  std::string texts;
  /// Lines that it has opened, from `first_line` of its table on.
  struct Opened {
    LineKey key;
    TextId members = 0, name = 0;
  };
  std::uint32_t first_line = 0;
  std::vector<Opened> opened;
  /// Entries of a line, from `first` on.
  struct Came {
    std::uint32_t line = 0;
    std::uint64_t first = 0, handed = 0;
    std::vector<Entry> entries;
  };
  std::vector<Came> came;

  /// False: more entries follow, so that this is no moment of the rank.
  bool is_whole = true;
  /// How it stands now; nullopt: as before.
  struct Standing {
    PeerState state = PeerState::Running;
    TextId gone = 0;
    std::uint64_t moves = 0;
    std::int32_t issuing = 0;
    bool has_threads_beside = false, takes_from_any = false;
    Duration alive{};  // from now on
    struct Wait {
      Waiting in;
      Duration age{};
    };
    std::vector<Wait> waits;
  };
  std::optional<Standing> standing;
};

/// Of one host, at one time.
struct Note {
  /// Ranks of which there is something new.
  std::vector<RankNote> ranks;
  struct Refused {
    LineKey key;
    Status said;
  };
  std::vector<Refused> refused;
};

/// For each reader: the number of the note, and the last of the reader's that its writer had before
/// it looked.
struct NoteMarks {
  std::uint64_t mark = 0, heard = 0;
};

using PostedBytes = std::array<char, sizeof(Posted)>;

/// Entries that come again, step after step, are told by number.
class NoteWriter {
 public:
  [[nodiscard]] Bytes encode(const Note& note);
  [[nodiscard]] static Bytes with_marks(const NoteMarks& marks, std::span<const std::byte> note);

 private:
  std::map<PostedBytes, std::uint32_t> known_;  // entries, and their numbers
};

/// Of the notes of one writer, in their order.
class NoteReader {
 public:
  struct Read {
    NoteMarks marks;
    Note note;
  };
  /// nullopt: these bytes are no note.
  [[nodiscard]] std::optional<Read> decode(std::span<const std::byte> bytes);

 private:
  std::vector<Posted> known_;
};

}  // namespace lockstep::lines
