// The progress board as one reader saw it at one moment: plain values, no shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep {

/// What a rank is busy with between its operations.
enum class Phase : std::uint8_t { Starting, Running, Tracing, Compiling, Loading, Finishing };
[[nodiscard]] std::string_view phase_name(Phase phase);

/// A coordinated operation: a control round or a data collective.
enum class OperationKind : std::uint8_t {
  None,
  Vote,
  Exchange,
  AllToAll,
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Collective  // any other collective
};
[[nodiscard]] std::string_view operation_name(OperationKind kind);

/// The group of all ranks of the job.
inline constexpr std::uint64_t kWorldGroup = 0;

/// One rank of the job.
struct RankState {
  bool known = false;     // its process has a seat here, or has sent its slot from another host
  bool carried = false;   // it is on another host: its slot arrived some time ago
  bool finished = false;  // its exit was clean
  bool lost = false;      // its process has ended without a clean exit
  bool stopped = false;   // its process is suspended (SIGSTOP, a debugger)
  bool waiting = false;   // it is inside a watched wait
  std::int32_t pid = 0;
  std::uint64_t host = 0;
  std::uint64_t begun = 0;                        // operations begun in all groups
  OperationKind operation = OperationKind::None;  // the last operation begun
  std::uint64_t group = kWorldGroup;              // of the last operation
  std::string group_name;                         // the group's name in reports; may be empty
  std::uint64_t ordinal = 0;                      // of the last operation in its group, from 1
  Phase phase = Phase::Starting;
  std::string event;    // last thing it noted
  Instant progress{0};  // when it last began an operation or noted something
  Instant lease{0};     // until when it has declared itself busy and alive
  Instant beat{0};      // when its watchdog last looked at the board; in jobs over TCP only
};

/// The operations of one group.
struct GroupState {
  std::uint64_t id = kWorldGroup;
  RankSet members;
  std::vector<std::uint64_t> begun;  // per rank of the job: operations of this group begun
};

struct BoardSnapshot {
  std::vector<RankState> ranks;
  std::vector<GroupState> groups;

  [[nodiscard]] const GroupState* group(std::uint64_t id) const;
};

/// "operation 12 (vote)": the last operation begun. All kinds of operations of a group are counted
/// together.
[[nodiscard]] std::string operation_text(const RankState& rank);
/// "began operation 12 (vote), compiling (lease valid), last event: call 6 of train_step"
[[nodiscard]] std::string describe(const RankState& rank, Instant now);

}  // namespace lockstep
