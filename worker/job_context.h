// What the frames of one job share. Owned by the job; internal to the files of this folder.
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
#include <lockstep/worker/agreement/frame_profile.h>
#include <lockstep/worker/agreement/group_rounds.h>
#include <lockstep/worker/agreement/record.h>
#include <lockstep/worker/execution/executable.h>
#include <lockstep/worker/graph/group.h>
#include <lockstep/worker/preview/trace_sheet.h>
#include <lockstep/worker/process/log.h>
#include <lockstep/worker/process/settings.h>
#include <lockstep/worker/toolchain/shared_build.h>

namespace lockstep::worker {

class InferMode;

/// What the calls of a job do once they are agreed on.
enum class RunMode : std::uint8_t {
  Compiled,     // they run built entries
  Interpreted,  // they interpret graphs: no rank has a compiler
  Traced,       // for `lockstep trace`: they write to the sheet, and their outputs have no values
  Inferred,     // for `lockstep infer`: the same, and frames are asked for their classes of sizes
};

/// What one frame's calls came to.
struct FrameCounts {
  std::string frame;
  std::string group;   // of ranks that agree on it; empty: all of the job
  bool alone = false;  // this rank decides for itself
  bool shared = true;  // by all ranks of the job, and they run the same graphs of it
  std::uint64_t calls = 0, reused = 0, compiled = 0, fallbacks = 0, errors = 0;
  std::uint64_t nodes_compiled = 0, nodes_interpreted = 0;  // run, summed over calls
  std::vector<shapes::Fingerprint> graphs;                  // that ran, in order of their first run
  std::vector<std::string> advice;                          // recompile_advice.h; each once
};

/// The longest that one compile unit may take; the toolchain ends the compiler then.
inline constexpr std::chrono::minutes kBuildLimit{2};

/// Some ranks of the job, as this rank takes part: its frames' calls are agreed here, or carry
/// their collectives here. One thread.
struct GroupContext {
  Group group;
  collectives::Communicator* data = nullptr;
  GroupRounds* rounds = nullptr;
  std::string label;  // of the group in keys of rounds
  /// Null: collectives between devices go over `data`.
  collectives::DeviceData* device_data = nullptr;
  std::set<std::string> frames;  // made over these ranks, by name
  std::string last_frame;        // the latest of them on whose calls these ranks agree

  [[nodiscard]] CallDriver& driver() const { return rounds->driver(); }
  [[nodiscard]] RoundKey round(RoundKey::Kind kind, std::string frame = {}) const {
    return {.group = label, .frame = std::move(frame), .kind = kind};
  }
};

/// One call at a time (`turns`). With coordination off, calls are agreed in a group of one, while
/// data collectives still go to all ranks: what happens without lockstep.
struct JobContext {
  Turns turns{"a job"};  // of its calls and those of its frames and checkpoints
  Settings settings;
  DecisionConfig decision;
  Log log;
  GroupContext everyone;                                    // all ranks
  GroupContext alone;                                       // this one
  std::map<std::string, GroupContext, std::less<>> groups;  // declared, by name
  Nesting nesting;                                          // of all that were declared
  collectives::Watch* watch = nullptr;
  BuildTools tools;                   // what units are built with
  DType low_precision = DType::BF16;  // what Autocast casts to unless told
  RunMode mode = RunMode::Compiled;
  std::shared_ptr<Device> device;                 // where programs run; null: on the host
  coordinator::ProfileStore* profiles = nullptr;  // null: this job has none, or this rank
  RankSet profile_sharers;                        // ranks that see the same profiles as this one
  /// What frames that all ranks share have learnt of their sizes, by name; a frame that has not
  /// been called yet starts from what stands here, which a checkpoint has brought (checkpoints.h).
  std::map<std::string, coordinator::Profile> learnt;
  std::set<std::string> told;
  Recorder* recorder = nullptr;             // null: no record
  InferMode* infer = nullptr;               // of RunMode::Inferred
  TraceSheet* sheet = nullptr;              // of RunMode::Traced and Inferred
  std::shared_ptr<coordinator::Feed> feed;  // null: nobody is to hear of the calls
  RunTimes run;                             // of all frames

  /// Calls run, compiled or interpreted; else they are traced only.
  [[nodiscard]] bool runs() const {
    return mode == RunMode::Compiled || mode == RunMode::Interpreted;
  }
  [[nodiscard]] int rank() const { return everyone.data->rank().value; }
  /// Where a program's group takes part; null where it has not been declared or this rank is none
  /// of its members.
  [[nodiscard]] GroupContext* group(const Group& named) {
    if (named.name.empty()) return &everyone;
    const auto found = groups.find(named.name);
    return found == groups.end() ? nullptr : &found->second;
  }
  /// Who agrees on the calls of a frame of that group.
  [[nodiscard]] GroupContext& agreeing(GroupContext& over, Consistency consistency) {
    return !settings.coordination || consistency == Consistency::Local ? alone : over;
  }

  /// A line of this rank, said once however often it happens.
  void tell(const std::string& text) {
    if (told.insert(text).second)
      log.line("info", "lockstep: rank " + std::to_string(rank()) + ": " + text);
  }
  /// Moves the votes of prefetched calls.
  void poke() {
    everyone.driver().poke();
    for (auto& [name, group] : groups) group.driver().poke();
  }

  SystemClock clock;
  void note(std::string_view event) {
    if (watch != nullptr) watch->seat().note(event, clock.now());
  }
  /// "Busy and alive": peers that wait for this rank give it that long from now.
  void busy_for(Duration time) {
    if (watch != nullptr) watch->seat().renew(clock.now() + time);
  }
  void phase(Phase phase) {
    if (watch != nullptr) watch->seat().phase(phase);
  }
};

}  // namespace lockstep::worker
