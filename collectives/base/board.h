// The progress board: one slot per rank of the job, in memory that all ranks of a host share, where
// each shows what it is doing. Read by watchdogs and reports; nothing that ranks compare depends on
// it.
//
// Lock-free throughout. A process writes the slot of its own rank only. A reader that meets a
// writer in the middle of an event tries again and at last reads "(being written)", never a
// mixture.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/base/shared_memory.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep {

namespace detail {
struct BoardMemory;
struct BoardSlot;
}  // namespace detail

/// Longest event text kept, in bytes; longer texts are cut.
inline constexpr std::size_t kEventBytes = 96;
/// Longest name of a group kept, in bytes; longer names are cut.
inline constexpr std::size_t kGroupNameBytes = 48;
/// Number of groups whose operations the board counts. Waits in further groups are judged by
/// deadline only.
inline constexpr std::size_t kBoardGroups = 64;

/// The slot of one rank, as its owner writes it. Each method is a few stores. begin(), note() and
/// phase() belong to one thread; renew() may be called from any.
class Seat {
 public:
  Seat() = default;

  /// Writes the process of this rank into the slot: RankState::known is true from here on.
  void register_process(std::int32_t pid, std::uint64_t host, Instant now);
  /// Begins operation `ordinal` (from 1) of a group; `group_entry` is the result of Board::entry().
  void begin(OperationKind kind, int group_entry, std::uint64_t ordinal, Instant now);
  /// Makes reports show this operation again: the rank began it before its latest operation, and
  /// waits for it now.
  void resume(OperationKind kind, int group_entry, std::uint64_t ordinal);
  /// Sets the last event, such as "call 12 of train_step". Counts as progress.
  void note(std::string_view event, Instant now);
  void phase(Phase phase);
  /// Renews the lease, which says that the rank is busy and alive until `until`, for example in a
  /// compile that takes minutes.
  void renew(Instant until);
  /// Notes that the process is not suspended. May be called from any thread.
  void beat(Instant now);
  /// Enters (true) or leaves a watched wait.
  void wait(bool waiting);
  /// Leaves a watched wait. Counts as progress: ranks that have waited long for a late rank leave
  /// the wait one after the other, and a rank that has just left it must not look stuck.
  void wait_over(Instant now);
  /// Notes a clean exit: from here on the end of the process is not the loss of the rank.
  void finish();

 private:
  friend class Board;
  Seat(detail::BoardMemory* memory, std::int32_t rank) : memory_(memory), rank_(rank) {}
  detail::BoardMemory* memory_ = nullptr;
  detail::BoardSlot* slot_ = nullptr;
  std::int32_t rank_ = 0;
};

/// The board of a job as mapped by this process; the destructor unmaps it. Thread-safe.
class Board {
 public:
  /// Makes a board in memory of this process only: for tests, and jobs of one process.
  [[nodiscard]] static std::unique_ptr<Board> in_process(int size);
  /// Makes a board in shared memory; sets `name`, by which the other processes of this host open
  /// it. Errors: Environment (no shared memory available).
  [[nodiscard]] static Result<std::unique_ptr<Board>> create(int size, std::string& name);
  /// Errors: Environment (there is no such memory, or it has another size or version).
  [[nodiscard]] static Result<std::unique_ptr<Board>> open(const std::string& name, int size);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Removes the name; processes that have mapped the memory keep it. Idempotent.
  static void unlink(const std::string& name);

  [[nodiscard]] int size() const;
  [[nodiscard]] Seat seat(Rank rank);
  /// The entry of the group for Seat::begin(), made at first use; -1: the board is full. Every
  /// member calls entry() before the group's first operation. `members` are ranks of the job.
  /// `name` names the group in reports: equal on all members, cut at kGroupNameBytes.
  [[nodiscard]] int entry(std::uint64_t group, const RankSet& members, std::string_view name = {});
  /// One slot, as snapshot() shows it.
  [[nodiscard]] RankState state(Rank rank) const;
  /// Number of operations that a rank has begun in a group of which it is a member.
  struct Begun {
    std::uint64_t group = kWorldGroup;
    std::uint64_t operations = 0;
  };
  [[nodiscard]] std::vector<Begun> begun(Rank rank) const;
  /// Writes the slot and the counts that a rank of another host has sent. Called by one process of
  /// this host (two may overlap for a moment), and only for ranks without a seat at this board.
  /// Omits the counts of groups that this board does not know.
  void carry(Rank rank, const RankState& told, const std::vector<Begun>& begun, std::uint64_t host);
  [[nodiscard]] bool finished(Rank rank) const;
  struct Process {
    std::int32_t pid = 0;  // 0: no process yet
    std::uint64_t host = 0;
  };
  [[nodiscard]] Process process(Rank rank) const;
  /// Leaves `lost` and `stopped` false: a board cannot see processes.
  [[nodiscard]] BoardSnapshot snapshot() const;
  /// Returns nullopt to the first caller of the host, which writes the report. Returns the first
  /// caller's exit code to all later callers, which leave silently with this code.
  [[nodiscard]] std::optional<int> claim_report(int exit_code);
  /// Called by the process that claimed the report, once the report is written. Then the other
  /// processes may leave.
  void end_report();
  /// Waits until the report is written, at most 3 s. Called before leaving silently, by another
  /// process or another thread of the process that reports.
  void await_report() const;

 private:
  Board(detail::BoardMemory* memory, std::optional<SharedMemory> shared)
      : memory_(memory), shared_(std::move(shared)) {}
  detail::BoardMemory* memory_;
  std::optional<SharedMemory> shared_;  // holds memory_; nullopt: memory_ is of this process only
};

/// Number of this host: equal for two processes that see each other and share memory.
[[nodiscard]] std::uint64_t host_id();

}  // namespace lockstep
