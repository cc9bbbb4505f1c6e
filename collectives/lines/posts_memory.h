// The memory of one process's posts as bytes: what lies where, and windows through which a part of
// a large sparse file is seen. Used by shared_posts.cpp alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/posts.h>
#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::lines {

inline constexpr std::uint32_t kTableLines = 4096;
inline constexpr std::size_t kWaitSlots = 64, kRefusals = 256;
inline constexpr std::size_t kWindow = std::size_t{1} << 20;

// Atomics in memory that other processes map have to be free of locks.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

struct WaitSlot {
  std::atomic<std::uint64_t> change{0};  // odd while it is written
  std::atomic<std::uint64_t> high{0}, low{0}, number{0};
  std::atomic<std::int64_t> since{0};  // of the host's monotonic clock, nanoseconds
  std::atomic<std::uint32_t> waits{0};
};

/// In the memory of the host's lowest rank, for all its ranks.
struct RefusalSlot {
  std::atomic<std::uint32_t> state{0};                        // 0 free, 1 claimed, 2 ready
  std::atomic<std::uint32_t> text{0}, code{0}, elsewhere{0};  // 1: another host has refused it
  std::atomic<std::int32_t> rank{0};                          // in whose memory the text is
  std::atomic<std::uint64_t> high{0}, low{0};
};

struct LineSlot {
  std::uint64_t high = 0, low = 0;  // these are written before PostsHeader::lines is raised
  TextId members = 0, name = 0;     // "0 1 5"; "the group of ranks 0-1"
  std::atomic<std::uint64_t> count{0}, handed{0};
  std::atomic<std::uint64_t> carried{0};  // entries that notes to other hosts have had
};

/// The first bytes of the memory; zero at first.
struct PostsHeader {
  std::uint64_t magic = 0, nonce = 0;
  std::atomic<std::uint32_t> state{0}, gone_text{0}, lines{0}, texts_end{0};
  std::atomic<std::uint64_t> moves{0};
  std::atomic<std::int64_t> alive_until{0};  // of the host's monotonic clock, nanoseconds
  std::atomic<std::int32_t> issuing{0};
  std::atomic<std::uint32_t> beside{0}, refusals{0};
  std::atomic<std::uint32_t> takes_from_any{0};  // 1: it has received from any source
  std::atomic<std::uint32_t> is_carried{0};      // notes tell other hosts what is posted here
  // Of a head: where the mirrors of ranks elsewhere are; the mark of its last note, and the last
  // that all other hosts have.
  std::atomic<std::uint32_t> mirrors{0};
  std::atomic<std::uint64_t> marks{0}, all_have{0};
  // Of a mirror: the last of them that its rank's host had when it told what is here; and when that
  // came, by this host's monotonic clock, nanoseconds.
  std::atomic<std::uint64_t> heard{0};
  std::atomic<std::int64_t> heard_at{0};
  WaitSlot waits[kWaitSlots];
  RefusalSlot refused[kRefusals];
  LineSlot table[kTableLines];
};

/// "locklin5": with the layout's version.
inline constexpr std::uint64_t kPostsMagic = 0x6c6f636b6c696e35;
inline constexpr std::size_t kTexts = std::size_t{1} << 20, kFixed = std::size_t{1} << 26;
static_assert(sizeof(PostsHeader) <= kTexts);
/// A line's entries, and from the middle on its values; each is a ring of half of that.
inline constexpr std::uint64_t kLines = std::uint64_t{1} << 30, kLine = std::uint64_t{1} << 38,
                               kRing = std::uint64_t{1} << 36;
inline constexpr std::uint64_t kFileBytes = kLines + kTableLines * kLine;
[[nodiscard]] constexpr std::uint64_t entries_of(std::uint32_t line) {
  return kLines + line * kLine;
}
[[nodiscard]] constexpr std::uint64_t values_of(std::uint32_t line) {
  return entries_of(line) + kLine / 2;
}
/// Texts are made touchable by so many bytes at a time.
inline constexpr std::uint64_t kTextStep = 64 << 10;

/// Without what it needs. nullopt: nobody waits there, or it is being written.
[[nodiscard]] std::optional<RankWaits::Wait> read_wait(const WaitSlot& slot);
/// All waits of a mirror.
void write_waits(PostsHeader& header, std::span<const RankWaits::Wait> waits);

/// The part of a ring of the file that is mapped now.
class Window {
 public:
  Window() = default;
  ~Window();
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  /// Bytes [at, at + bytes) of the ring that begins at `ring`, which lie in one window; null: they
  /// cannot be mapped.
  [[nodiscard]] std::byte* at(int file, std::uint64_t ring, std::uint64_t at, bool writes);

 private:
  std::byte* pages_ = nullptr;
  std::uint64_t index_ = 0;
};

/// A file in memory and its fixed part, mapped.
class PostsMemory {
 public:
  /// Errors: Environment.
  [[nodiscard]] static Result<PostsMemory> create();
  /// By its place(). Errors: Environment (it is not of this host, or not to be read).
  /// `whose_end_is_seen`: see has_ended().
  [[nodiscard]] static Result<PostsMemory> open(std::string_view place,
                                                bool whose_end_is_seen = true);
  ~PostsMemory();
  PostsMemory(PostsMemory&& other) noexcept;
  PostsMemory& operator=(PostsMemory&&) = delete;

  [[nodiscard]] std::string place() const;
  [[nodiscard]] PostsHeader& header() const { return *reinterpret_cast<PostsHeader*>(fixed_); }
  [[nodiscard]] char* texts() const { return reinterpret_cast<char*>(fixed_ + kTexts); }
  [[nodiscard]] int file() const { return file_; }
  /// Of a line of its table.
  [[nodiscard]] WaitMoment::Counts counts_of(std::uint32_t line) const;
  /// Through windows of the caller's. Requires number < count. nullopt: it cannot be read.
  [[nodiscard]] std::optional<Entry> entry(std::uint32_t line, std::uint64_t number,
                                           Window& entries, Window& values) const;
  [[nodiscard]] std::string text(TextId id) const;
  /// Makes bytes of the file ones that can be touched.
  [[nodiscard]] bool reserve(std::uint64_t at, std::uint64_t bytes) const;
  /// Gives them back.
  void give_back(std::uint64_t at, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t held_bytes() const;
  /// Its process has ended. False where that is not seen, and for this process's own memory.
  [[nodiscard]] bool has_ended() const;

 private:
  PostsMemory(int file, int process) : file_(file), process_(process) {}
  [[nodiscard]] Result<void> map();

  int file_ = -1, process_ = -1;
  std::byte* fixed_ = nullptr;
};

}  // namespace lockstep::lines
