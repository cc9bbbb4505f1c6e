// What one simulated job does, as a list of steps that is the same on all ranks, and the faults
// that strike it. Plain data: made from a seed, printed, and cut down step by step when it fails.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/decision.h>
#include <lockstep/worker/simulator/scenario.h>

namespace lockstep::fuzz {

/// One rank's inputs of one call, by name.
using Values = std::map<std::string, worker::simulator::ScenarioValue>;

/// Ranks that agree among themselves, and how the functions that they compile behave.
struct GroupPlan {
  RankSet members;
  worker::DecisionConfig config;
  bool branches = false;  // the traced function branches on its first symbol
  bool asks = false;      // it asks the group about its first symbol (same_graph only)
};

struct Step {
  enum class Kind : std::uint8_t { Call, Settle, Any };
  Kind kind = Kind::Call;
  std::size_t group = 0;
  std::string frame;           // Call
  std::vector<Values> inputs;  // Call: by place in the group
  std::uint64_t yes = 0;       // Any: the ranks of the job that say yes, one bit each
};

struct Fault {
  enum class Kind : std::uint8_t {
    // Of a rank in a step. Each is an error of that step on all ranks of the group.
    Trouble,       // it brings a failure to the step
    TraceFails,    // its traced function fails
    GraphDiffers,  // it traces another program, from node `amount` on
    CompileFails,  // the compiler rejects its text, or is not there (odd `amount`)
    WrongFrame,    // it calls another frame
    Pending,       // it carries other pending asserts than its peers
    // Of a rank in a step. What follows is the same on all ranks, but not told beforehand.
    LostCache,  // it has forgotten its entries of the frame
    Garbled,    // a payload that it sends up the tree is garbled; `amount` says how
    // Of a rank, without influence on what calls come to.
    Pause,  // it takes `amount` ms longer before the step (less than the deadline)
    Slow,   // its messages take `amount` ms longer
    Stop,   // suspended at event `amount`, for less than the deadline
    // Ends the job.
    Skip,    // it leaves out the step
    Leave,   // it casts its last vote at the step
    Hang,    // it takes longer than the deadline before the step
    Crash,   // at event `amount`
    Freeze,  // suspended for good at event `amount`
    // A sabotage of the protocol itself; only for tests of the checks.
    IgnoresCommit,  // the rank takes a commit vote for its own vote
  };
  Kind kind = Kind::Crash;
  int rank = 0;
  std::size_t step = 0;
  std::uint64_t amount = 0;
};

[[nodiscard]] std::string_view fault_name(Fault::Kind kind);
inline constexpr std::size_t kFaultKinds = static_cast<std::size_t>(Fault::Kind::IgnoresCommit) + 1;
/// Of a rank in a step, as opposed to an event or the whole run.
[[nodiscard]] bool at_step(Fault::Kind kind);
/// The job may end before its program does.
[[nodiscard]] bool ends_job(Fault::Kind kind);

/// A job. `groups[0]` are all ranks.
struct Program {
  int ranks = 1;
  std::vector<GroupPlan> groups;
  std::vector<Step> steps;
  std::vector<Fault> faults;

  [[nodiscard]] bool strikes(Fault::Kind kind) const;
  [[nodiscard]] bool ends_early() const;
};

/// How long a rank may keep others waiting in simulated time.
inline constexpr Duration kDeadline = std::chrono::seconds(60);

/// The program of a seed. A pure function.
[[nodiscard]] Program random_program(std::uint64_t seed);

/// One line per group, step and fault.
[[nodiscard]] std::string program_text(const Program& program);

}  // namespace lockstep::fuzz
