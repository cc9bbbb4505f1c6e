// The progress board: one slot per rank of the job, in memory that all ranks of a host share, where
// each shows what it is doing. Read by watchdogs and reports; nothing that ranks compare depends on
// it.
//
// Lock-free throughout. A process writes the slot of its own rank only; a reader may meet a writer
// in the middle of an event and then reads the one before or "(being written)", never a mixture.
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

/// Longest event text kept, in bytes; longer ones are cut.
inline constexpr std::size_t kEventBytes = 96;
/// Longest name of a group kept, in bytes; longer ones are cut.
inline constexpr std::size_t kGroupNameBytes = 48;
/// Groups with a record of their own on the board; waits in further ones are judged by deadline
/// only.
inline constexpr std::size_t kBoardGroups = 64;

/// The slot of one rank, as its owner writes it. Each method is a few stores. begin(), note() and
/// phase() belong to one thread; renew() may be called from any.
class Seat {
 public:
  Seat() = default;

  /// Enters the process of this rank: its slot counts as known from here on.
  void register_process(std::int32_t pid, std::uint64_t host, Instant now);
  /// Begins operation `ordinal` (from 1) of the group whose entry Board::entry() returned.
  void begin(OperationKind kind, int group_entry, std::uint64_t ordinal, Instant now);
  /// Shows in reports an operation that was begun before others and is waited for now.
  void resume(OperationKind kind, int group_entry, std::uint64_t ordinal);
  /// "call 12 of train_step". Counts as progress.
  void note(std::string_view event, Instant now);
  void phase(Phase phase);
  /// Renews the lease, "busy and alive until then": for a compile that takes minutes.
  void renew(Instant until);
  /// Notes that the process is not suspended. Any thread.
  void beat(Instant now);
  /// Enters (true) or leaves a watched wait.
  void wait(bool waiting);
  /// Leaves a watched wait. Counts as progress: ranks that waited long for a late one go on one
  /// after the other.
  void wait_over(Instant now);
  /// Notes a clean exit: the end of the process is no loss from here on.
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
  /// Errors: Environment (no such memory, or of another size or version).
  [[nodiscard]] static Result<std::unique_ptr<Board>> open(const std::string& name, int size);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Removes the name; processes that have mapped the memory keep it. Idempotent.
  static void unlink(const std::string& name);

  [[nodiscard]] int size() const;
  [[nodiscard]] Seat seat(Rank rank);
  /// The entry of the group for Seat::begin, made at first use; -1: the board is full. Every member
  /// calls it before the group's first operation. Ranks are those of the job. `name`, the same on
  /// all members and cut at kGroupNameBytes, names the group in reports.
  [[nodiscard]] int entry(std::uint64_t group, const RankSet& members, std::string_view name = {});
  /// One slot, as snapshot() shows it.
  [[nodiscard]] RankState state(Rank rank) const;
  /// Operations begun by this rank, for each group that it is a member of.
  struct Begun {
    std::uint64_t group = kWorldGroup;
    std::uint64_t operations = 0;
  };
  [[nodiscard]] std::vector<Begun> begun(Rank rank) const;
  /// Writes the slot and the counts that a rank of another host has sent. Called by one process of
  /// this host, for a moment by two, and only for ranks without a seat at this board. Counts of
  /// groups that this board does not know are left out.
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
  /// caller's exit code to all later ones, which leave with it silently.
  [[nodiscard]] std::optional<int> claim_report(int exit_code);
  /// Called by the process that claimed the report: it is written, and others may leave.
  void end_report();
  /// Called before leaving silently, by a process or by another thread of the one that reports:
  /// returns once the report is written, after 3 s at the latest.
  void await_report() const;

 private:
  Board(detail::BoardMemory* memory, std::optional<SharedMemory> shared)
      : memory_(memory), shared_(std::move(shared)) {}
  detail::BoardMemory* memory_;
  std::optional<SharedMemory> shared_;  // where memory_ lies; nullopt: in this process only
};

/// Number of this host: equal for processes that see each other's processes and shared memory.
[[nodiscard]] std::uint64_t host_id();

}  // namespace lockstep
