// The state that the frames of one job share. Owned by the job; internal to this folder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/collectives/base/turn.h>
#include <lockstep/collectives/mpi.h>
#include <lockstep/coordinator/client/feed.h>
#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/agree/agreement/group_rounds.h>
#include <lockstep/worker/agree/agreement/record.h>
#include <lockstep/worker/agree/process/log.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/job/preview/trace_sheet.h>
#include <lockstep/worker/tensor/graph/group.h>

namespace lockstep::worker {

class InferMode;

/// What the calls of a job do once they are agreed on.
enum class RunMode : std::uint8_t {
  Compiled,     // run built entries
  Interpreted,  // interpret graphs: no rank has a compiler
  Traced,       // for `lockstep trace`: write to the sheet; outputs have no values
  Inferred,     // for `lockstep infer`: as Traced; classes of sizes are inferred, too
};

/// Counts of one frame's calls.
struct FrameCounts {
  std::string frame;
  std::string group;   // group that runs it; empty: all ranks of the job
  bool alone = false;  // this rank decides alone
  bool shared = true;  // all ranks of the job run the same graphs of it
  std::uint64_t calls = 0, reused = 0, compiled = 0, fallbacks = 0, errors = 0;
  std::uint64_t nodes_compiled = 0, nodes_interpreted = 0;  // run, summed over calls
  std::vector<shapes::Fingerprint> graphs;                  // run so far, in order of first run
  std::vector<std::string> advice;                          // recompile_advice.h; each once
};

/// Time limit of one compile unit, at which the toolchain ends the compiler.
inline constexpr std::chrono::minutes kBuildLimit{2};

/// A set of ranks, including this rank, that agree on calls of frames or run the collectives of
/// frames. Single-threaded.
struct GroupContext {
  Group group;
  collectives::Communicator* data = nullptr;
  GroupRounds* rounds = nullptr;
  std::string label;  // the group's name in keys of rounds
  /// Null: collectives between devices go over `data`.
  collectives::DeviceData* device_data = nullptr;
  std::set<std::string> frames;  // names of the frames made over these ranks
  std::string last_frame;        // the frame made last whose calls these ranks agree on

  [[nodiscard]] CallDriver& driver() const { return rounds->driver(); }
  [[nodiscard]] RoundKey round(RoundKey::Kind kind, std::string frame = {}) const {
    return {.group = label, .frame = std::move(frame), .kind = kind};
  }
};

/// One call at a time (`turns`). With coordination off, calls are agreed in a group of one, while
/// data collectives still involve all ranks, as without lockstep.
struct JobContext {
  Turns turns{"a job"};  // for calls of the job, its frames and its checkpoints
  Settings settings;
  DecisionConfig decision;
  Log log;
  GroupContext everyone;                                    // all ranks
  GroupContext alone;                                       // this rank
  std::map<std::string, GroupContext, std::less<>> groups;  // declared groups of this rank, by name
  Nesting nesting;                                          // of all declared groups
  collectives::Watch* watch = nullptr;
  BuildTools tools;                                                // for compile units
  std::unique_ptr<Threads> threads = std::make_unique<Threads>();  // compute on the host
  DType low_precision = DType::BF16;                               // the default type of Autocast
  RunMode mode = RunMode::Compiled;
  std::shared_ptr<Device> device;                 // runs programs; null: the host runs them
  coordinator::ProfileStore* profiles = nullptr;  // null: this job, or this rank, has none
  RankSet profile_sharers;                        // ranks that see the same profiles as this rank
  /// Profiles of the frames that all ranks share, by name. A checkpoint may restore profiles into
  /// this map; a frame that has not been called yet starts from them (checkpoints.h).
  std::map<std::string, coordinator::Profile> learnt;
  std::set<std::string> told;               // lines logged by tell()
  Recorder* recorder = nullptr;             // null: no record
  InferMode* infer = nullptr;               // set in RunMode::Inferred
  TraceSheet* sheet = nullptr;              // set in RunMode::Traced and Inferred
  std::shared_ptr<coordinator::Feed> feed;  // null: calls are not reported
  RunTimes run;                             // of all frames

  /// True if calls run, compiled or interpreted; false if they are traced only.
  [[nodiscard]] bool runs() const {
    return mode == RunMode::Compiled || mode == RunMode::Interpreted;
  }
  [[nodiscard]] int rank() const { return everyone.data->rank().value; }
  /// The context of a program's group; null if it has not been declared or does not contain this
  /// rank.
  [[nodiscard]] GroupContext* group(const Group& named) {
    if (named.name.empty()) return &everyone;
    const auto found = groups.find(named.name);
    return found == groups.end() ? nullptr : &found->second;
  }
  /// The ranks that agree on the calls of a frame of the group `over`.
  [[nodiscard]] GroupContext& agreeing(GroupContext& over, Consistency consistency) {
    return !settings.coordination || consistency == Consistency::Local ? alone : over;
  }

  /// Logs a line of this rank, each text once only.
  void tell(const std::string& text) {
    if (told.insert(text).second)
      log.line("info", "lockstep: rank " + std::to_string(rank()) + ": " + text);
  }
  /// Advances the votes of prefetched calls.
  void poke() {
    everyone.driver().poke();
    for (auto& [name, group] : groups) group.driver().poke();
  }

  SystemClock clock;
  void note(std::string_view event) {
    if (watch != nullptr) watch->seat().note(event, clock.now());
  }
  /// Makes this rank count as busy and alive, for `time` from now, to peers that wait for it.
  void busy_for(Duration time) {
    if (watch != nullptr) watch->seat().renew(clock.now() + time);
  }
  void phase(Phase phase) {
    if (watch != nullptr) watch->seat().phase(phase);
  }
};

}  // namespace lockstep::worker
