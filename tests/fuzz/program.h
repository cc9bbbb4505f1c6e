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
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::fuzz {

/// One rank's inputs of one call, by name.
using Values = std::map<std::string, worker::simulator::ScenarioValue>;

/// Ranks that agree among themselves, and how the functions that they compile behave.
struct GroupPlan {
  RankSet members;
  worker::DecisionConfig config;
  bool branches = false;  // the traced function branches on its first symbol
  bool asks = false;      // it asks the group about its first symbol (same_graph only)
  bool pads = false;      // its collectives need its last symbol alike (same_graph only)
  bool builds = false;    // its programs are built by the ranks together
};

/// What a rank's host has to build with. Compilers are numbered from 1; 0: none.
struct Host {
  int processor = 0, compiler = 1;
  bool store = false;  // keeps artifacts, in a directory of its own
};
inline constexpr int kCompilers = 2;

/// What a rank's directory of profiles holds when the job starts.
enum class Start : std::uint8_t {
  Fresh,    // nothing
  Same,     // what an earlier run of this very program left
  Other,    // what an earlier run with partly other inputs left
  Damaged,  // as Same, but cut short
};

struct Step {
  enum class Kind : std::uint8_t {
    Call,
    Settle,
    Any,
    More,    // rounds of more(), each followed by a call, until no rank has a batch left
    Resync,  // also after no error at all
    Audit,   // every rank by its own decision
    Local,   // a call that each rank makes alone
  };
  Kind kind = Kind::Call;
  std::size_t group = 0;
  std::string frame;           // Call, More, Audit, Local
  std::vector<Values> inputs;  // the same: by place in the group
  std::uint64_t yes = 0;       // Any: the ranks of the job that say yes, one bit each
  std::size_t ahead = 0;       // Call: prefetched so many steps of the group earlier; 0: not
  std::vector<int> batches;  // More: by place in the group; who has none left comes with empty ones
};
inline constexpr std::size_t kStepKinds = static_cast<std::size_t>(Step::Kind::Local) + 1;
[[nodiscard]] std::string_view step_name(Step::Kind kind);
/// What a rank brings to turn `turn` of a More step.
[[nodiscard]] Values batch_of(const Values& inputs, int batches, int turn);

struct Fault {
  enum class Kind : std::uint8_t {
    // Of a rank in a step. Each is an error of that step on all ranks of the group.
    Trouble,       // it brings a failure to the step
    TraceFails,    // its traced function fails
    GraphDiffers,  // it traces another program, from node `amount` on
    CompileFails,  // the compiler rejects its text, or is not there (odd `amount`)
    WrongFrame,    // it calls another frame
    Pending,       // it carries other pending asserts than its peers
    // Of a rank in a step in which programs are built together.
    BuilderDies,  // its compiler dies: the next rank builds; an error where there is none
    Rejects,      // its compiler rejects the text, if it gets any: an error
    CorruptUnit,  // it alters objects that it sends: an error where one is sent
    OtherObject,  // its store has another host's objects under the keys: replaced, or taken by all
    // Of a rank in a step. What follows is the same on all ranks, but not told beforehand.
    LostCache,  // it has forgotten its entries of the frame
    Garbled,    // a payload that it sends up the tree is garbled; `amount` says how
    // Of a rank, without influence on what calls come to.
    Pause,  // it takes `amount` ms longer before the step (less than the deadline)
    Slow,   // its messages take `amount` ms longer
    Stop,   // suspended at event `amount`, for less than the deadline
    // Ends the job, but where the program recovers.
    Skip,  // it leaves out the step
    // Ends the job.
    OtherPromise,  // it prefetches the call of the step with other inputs
    NoPromise,     // it does not prefetch that call
    Leave,         // it casts its last vote at the step
    Hang,          // it takes longer than the deadline before the step
    Crash,         // at event `amount`
    Freeze,        // suspended for good at event `amount`
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

/// A job. `groups[0]` are all ranks.
struct Program {
  int ranks = 1;
  std::vector<GroupPlan> groups;
  std::vector<Step> steps;
  std::vector<Fault> faults;
  std::vector<Host> hosts;    // by rank; empty: no group builds
  std::vector<Start> starts;  // by rank; empty: no profiles
  /// Ranks of a group that are out of step (FRAME_MISMATCH) go to the group's next Resync step, or
  /// to the end, and resync there until they are in step again.
  bool recovers = false;

  [[nodiscard]] bool strikes(Fault::Kind kind) const;
  [[nodiscard]] bool strikes(Fault::Kind kind, Rank rank, std::size_t step) const;
  /// The job may end before its program does.
  [[nodiscard]] bool ends_early() const;
  /// A rank may go another way after a vote that it cast ahead, or break its promise: the job ends,
  /// and not every rank needs to end a call in which others are.
  [[nodiscard]] bool strays() const;
  /// Ranks may be out of step for a while.
  [[nodiscard]] bool gets_lost() const;
  /// Before each step: the steps whose calls are prefetched then, oldest first.
  [[nodiscard]] std::vector<std::vector<std::size_t>> promises() const;
};

/// How long a rank may keep others waiting in simulated time.
inline constexpr Duration kDeadline = std::chrono::seconds(60);

/// The program of a seed. A pure function.
[[nodiscard]] Program random_program(std::uint64_t seed);

/// One line per group, step and fault.
[[nodiscard]] std::string program_text(const Program& program);

}  // namespace lockstep::fuzz
