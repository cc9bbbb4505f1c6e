// What this process reads of another process's posts. Used by shared_posts.cpp alone.
#pragma once

#include <map>
#include <mutex>

#include <lockstep/collectives/lines/posts_memory.h>
#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::lines {

/// Thread-safe.
class PeerPosts {
 public:
  explicit PeerPosts(PostsMemory memory) : memory_(std::move(memory)) {}

  [[nodiscard]] const PostsMemory& memory() const { return memory_; }
  /// Zero if the peer has not opened the line.
  [[nodiscard]] WaitMoment::Counts counts_of(LineKey key);
  [[nodiscard]] std::optional<Entry> entry(LineKey key, std::uint64_t number);
  /// The peer's line of a key; nullopt: not opened.
  [[nodiscard]] std::optional<std::uint32_t> line(LineKey key);

 private:
  struct Line {
    std::uint32_t number = 0;
    Window entries, values;
  };
  /// The peer's line of a key; null: not opened. Requires the lock `reading_`.
  [[nodiscard]] Line* find(LineKey key);

  PostsMemory memory_;
  std::mutex reading_;  // guards the members below
  std::map<LineKey, Line> lines_;
  std::uint32_t looked_at_ = 0;  // number of lines of the peer's table that are in `lines_`
};

}  // namespace lockstep::lines
