// What this process posts: its table of lines, their entries, its texts. Used by shared_posts.cpp
// and mirror.h alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <lockstep/collectives/lines/posts_memory.h>
#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::lines {

/// Thread-safe, except that post(), handed() and trim() are called by one thread at a time for each
/// line. The contracts are those of Posts.
class OwnPosts {
 public:
  explicit OwnPosts(PostsMemory memory) : memory_(std::move(memory)) {}

  [[nodiscard]] const PostsMemory& memory() const { return memory_; }
  [[nodiscard]] Result<LineId> open(const Group& group);
  [[nodiscard]] std::uint64_t count(LineId line) const;
  [[nodiscard]] Result<void> post(LineId line, const Entry& entry);
  void handed(LineId line);
  void trim(LineId line, std::uint64_t number);
  [[nodiscard]] TextId text(std::string_view text);
  [[nodiscard]] WaitMoment::Counts counts_of(LineKey key);
  [[nodiscard]] std::optional<Entry> entry(LineKey key, std::uint64_t number);
  /// The line of a key; nullopt: not opened.
  [[nodiscard]] std::optional<std::uint32_t> find(LineKey key);
  /// Bytes of values that the line's entries have taken so far.
  [[nodiscard]] std::uint64_t value_bytes(LineId line) const;

  /// For a mirror: copies what another memory holds at these places. False: the copied part does
  /// not continue what is already here, or there is no room.
  [[nodiscard]] bool copy_texts(std::uint32_t begin, std::string_view texts);
  [[nodiscard]] bool copy_line(std::uint32_t number, LineKey key, TextId members, TextId name);

 private:
  [[nodiscard]] bool reserve_texts(std::uint64_t end);
  void add_line(std::uint32_t number, LineKey key, TextId members, TextId name);
  struct Line {
    Window entries, values;
    std::uint64_t values_end = 0;                             // values so far, including gaps
    std::uint64_t entries_reserved = 0, values_reserved = 0;  // bytes
    std::uint64_t entries_kept = 0, values_kept = 0;  // bytes freed so far
    Window read_entries, read_values;                 // guarded by `reading_`
  };
  [[nodiscard]] bool write(std::uint32_t line, const Entry& entry);
  [[nodiscard]] bool reserve(std::uint64_t ring, std::uint64_t end, std::uint64_t& reserved) const;
  PostsMemory memory_;
  std::unique_ptr<Line> lines_[kTableLines];  // set once, then used by the thread that posts
  std::mutex reading_;                        // guards read_entries, read_values
  std::mutex opening_;                        // guards the members below
  std::map<LineKey, std::uint32_t> numbers_;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, TextId, Hash, std::equal_to<>> texts_;
  std::uint64_t texts_reserved_ = kTextStep;
};

}  // namespace lockstep::lines
