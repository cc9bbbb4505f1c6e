// The memory of one process's posts as bytes: its layout, and windows through which a part of a
// large sparse file is mapped. Used only in this folder.
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

// Atomics in memory that several processes map must be lock-free.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

struct WaitSlot {
  std::atomic<std::uint64_t> change{0};  // odd while it is written
  std::atomic<std::uint64_t> high{0}, low{0}, number{0};
  std::atomic<std::int64_t> since{0};  // nanoseconds of the host's monotonic clock
  std::atomic<std::uint32_t> waits{0};
};

/// A refusal, in the memory of the host's lowest rank, for all ranks of the host.
struct RefusalSlot {
  std::atomic<std::uint32_t> state{0};                        // 0 free, 1 claimed, 2 ready
  std::atomic<std::uint32_t> text{0}, code{0}, elsewhere{0};  // elsewhere 1: another host refused
  std::atomic<std::int32_t> rank{0};                          // rank whose memory holds the text
  std::atomic<std::uint64_t> high{0}, low{0};
};

struct LineSlot {
  std::uint64_t high = 0, low = 0;  // `high` to `name`: written before PostsHeader::lines is raised
  TextId members = 0, name = 0;     // "0 1 5"; "the group of ranks 0-1"
  std::atomic<std::uint64_t> count{0}, handed{0};
  std::atomic<std::uint64_t> carried{0};  // entries that notes have carried
};

/// The start of the memory; initially zero.
struct PostsHeader {
  std::uint64_t magic = 0, nonce = 0;
  std::atomic<std::uint32_t> state{0}, gone_text{0}, lines{0}, texts_end{0};
  std::atomic<std::uint64_t> moves{0};
  std::atomic<std::int64_t> alive_until{0};  // nanoseconds of the host's monotonic clock
  std::atomic<std::int32_t> issuing{0};
  std::atomic<std::uint32_t> beside{0}, refusals{0};
  std::atomic<std::uint32_t> takes_from_any{0};  // 1: the process has received from any source
  std::atomic<std::uint32_t> notes_are_sent{0};  // 1: notes carry these posts to other hosts
  // In the memory of a head: the text that lists the mirrors of ranks of other hosts; the mark of
  // its last note, and the last mark that all other hosts have.
  std::atomic<std::uint32_t> mirrors{0};
  std::atomic<std::uint64_t> marks{0}, all_have{0};
  // In a mirror: the last mark of this host that the rank's host had received when it read this
  // state; and when the state arrived here, in nanoseconds of the host's monotonic clock.
  std::atomic<std::uint64_t> heard{0};
  std::atomic<std::int64_t> heard_at{0};
  WaitSlot waits[kWaitSlots];
  RefusalSlot refused[kRefusals];
  LineSlot table[kTableLines];
};

/// "locklin5": the last character is the layout's version.
inline constexpr std::uint64_t kPostsMagic = 0x6c6f636b6c696e35;
inline constexpr std::size_t kTexts = std::size_t{1} << 20, kFixed = std::size_t{1} << 26;
static_assert(sizeof(PostsHeader) <= kTexts);
/// kLine: bytes of the file for one line. The line's entries begin at their start, its values in
/// their middle; each of the two is a ring of kRing bytes.
inline constexpr std::uint64_t kLines = std::uint64_t{1} << 30, kLine = std::uint64_t{1} << 38,
                               kRing = std::uint64_t{1} << 36;
inline constexpr std::uint64_t kFileBytes = kLines + kTableLines * kLine;
[[nodiscard]] constexpr std::uint64_t entries_of(std::uint32_t line) {
  return kLines + line * kLine;
}
[[nodiscard]] constexpr std::uint64_t values_of(std::uint32_t line) {
  return entries_of(line) + kLine / 2;
}
/// Number of bytes by which the memory of the texts grows.
inline constexpr std::uint64_t kTextStep = 64 << 10;

/// The wait in a slot, without `needed`. nullopt: the slot has none, or is being written.
[[nodiscard]] std::optional<RankWaits::Wait> read_wait(const WaitSlot& slot);
/// Writes all waits of a mirror.
void write_waits(PostsHeader& header, std::span<const RankWaits::Wait> waits);

/// Maps one part of a ring of the file at a time.
class Window {
 public:
  Window() = default;
  ~Window();
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  /// Byte `at` of the ring that begins at byte `ring` of the file; the bytes after it, up to the
  /// window's end, follow. null: they cannot be mapped.
  [[nodiscard]] std::byte* at(int file, std::uint64_t ring, std::uint64_t at, bool writes);

 private:
  std::byte* pages_ = nullptr;
  std::uint64_t index_ = 0;
};

/// A file in memory; its fixed part is mapped.
class PostsMemory {
 public:
  /// Errors: Environment.
  [[nodiscard]] static Result<PostsMemory> create();
  /// Opens the memory whose place() is `place`. Errors: Environment (the memory is on another host,
  /// or cannot be read). `whose_end_is_seen`: see has_ended().
  [[nodiscard]] static Result<PostsMemory> open(std::string_view place,
                                                bool whose_end_is_seen = true);
  ~PostsMemory();
  PostsMemory(PostsMemory&& other) noexcept;
  PostsMemory& operator=(PostsMemory&&) = delete;

  [[nodiscard]] std::string place() const;
  [[nodiscard]] PostsHeader& header() const { return *reinterpret_cast<PostsHeader*>(fixed_); }
  [[nodiscard]] char* texts() const { return reinterpret_cast<char*>(fixed_ + kTexts); }
  [[nodiscard]] int file() const { return file_; }
  /// The counts of a line of the process's table.
  [[nodiscard]] WaitMoment::Counts counts_of(std::uint32_t line) const;
  /// Reads an entry through the caller's windows. Requires number < count. nullopt: the entry
  /// cannot be read.
  [[nodiscard]] std::optional<Entry> entry(std::uint32_t line, std::uint64_t number,
                                           Window& entries, Window& values) const;
  [[nodiscard]] std::string text(TextId id) const;
  /// Allocates these bytes of the file, so that they can be touched. False: no memory is left.
  [[nodiscard]] bool reserve(std::uint64_t at, std::uint64_t bytes) const;
  /// Frees these bytes.
  void give_back(std::uint64_t at, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t held_bytes() const;
  /// Whether the process that owns the memory has ended. False if `whose_end_is_seen` was false,
  /// and for this process's own memory.
  [[nodiscard]] bool has_ended() const;

 private:
  PostsMemory(int file, int process) : file_(file), process_(process) {}
  [[nodiscard]] Result<void> map();

  int file_ = -1, process_ = -1;
  std::byte* fixed_ = nullptr;
};

}  // namespace lockstep::lines
