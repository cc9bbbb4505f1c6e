// Checkpoints of a job: its state saved beside the running program, and loaded again by any number
// of ranks.
//
//   Checkpoints checkpoints(job, "DIR", {.every = 50});
//   State state = …;                               // a struct with `fields` (checkpoint/state.h)
//   if (auto found = checkpoints.restore(state); !found) return found.error();
//   for (; state.step < steps; …) {
//     …
//     if (auto saved = checkpoints.save(state.step, state); !saved) return saved.error();
//   }
//   return checkpoints.finish();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/turn.h>
#include <lockstep/worker/files/checkpoint/restore.h>
#include <lockstep/worker/files/checkpoint/saver.h>
#include <lockstep/worker/job/job.h>

namespace lockstep::worker {

/// All ranks make the same calls in the same order, between calls of frames. Names that begin with
/// "lockstep." are reserved. One job at a time uses the folder, which all ranks see. Calls take the
/// job's turn, as those of its frames do. If the job is traced in place of being run, nothing is
/// saved or loaded.
class Checkpoints {
 public:
  /// `job` must outlive this object.
  Checkpoints(Job& job, std::string folder, CheckpointOptions options = {});
  ~Checkpoints();

  /// To be called after every step: advances the save in progress, if any, at the cost of one vote,
  /// and begins another at steps that `every` divides. Returns true if this call began a save.
  /// `state` may change once save() returns. A save that fails later is logged and becomes
  /// last_failure(); the program goes on. Errors, joint: BadInput, ConstraintViolation (this state
  /// cannot be saved); those of a failed save with `stop_on_failure`; those of votes.
  template <class State>
  [[nodiscard]] Result<bool> save(std::int64_t step, State& state) {
    const auto turn = enter("Checkpoints::save()");
    if (!turn) return turn.error();
    if (!runs()) return false;
    // Most steps are not saved, so they avoid the walk through the state.
    if (saver_->due(step)) return told(saver_->save(step, all_of(state)));
    if (auto gone_on = told(saver_->go_on()); !gone_on) return gone_on.error();
    return false;
  }
  /// Loads the last complete checkpoint, or the one of `options.step`, into `state`. nullopt: there
  /// is no such checkpoint. Errors, joint: those of restore_checkpoint(); the state is then
  /// unchanged.
  template <class State>
  [[nodiscard]] Result<std::optional<Restored>> restore(State& state,
                                                        const RestoreOptions& options = {}) {
    const auto turn = enter("Checkpoints::restore()");
    if (!turn) return turn.error();
    if (!runs()) return std::optional<Restored>();
    auto found = restore_checkpoint(*ranks_, folder_, all_of(state), options);
    if (found && *found) saver_->loaded((*found)->step);
    return found;
  }
  /// Waits until the save in progress has ended. Errors: as save().
  [[nodiscard]] Result<void> finish();
  /// At the end of the program: saves `step`, even if `every` does not divide it, unless it is the
  /// last saved step. Then waits as finish() does. Errors: as save().
  template <class State>
  [[nodiscard]] Result<void> save_last(std::int64_t step, State& state) {
    const auto turn = enter("Checkpoints::save_last()");
    if (!turn) return turn.error();
    if (!runs()) return {};
    return told(saver_->save_last(step, all_of(state)));
  }

  [[nodiscard]] std::optional<std::int64_t> last_committed() const {
    return saver_->last_committed();
  }
  [[nodiscard]] const std::optional<Status>& last_failure() const { return saver_->last_failure(); }

 private:
  /// The leaves of the state, and the frames' profiles. With a restored profile, a frame makes at
  /// its first call the decisions for which the saved job needed several compiles.
  template <class State>
  [[nodiscard]] StateLeaves all_of(State& state) {
    StateLeaves leaves = leaves_of(state);
    add_learnt(leaves);
    return leaves;
  }
  void add_learnt(StateLeaves& leaves);
  [[nodiscard]] bool runs() const;
  /// Takes the job's turn. Errors: BadInput (Turns::take).
  [[nodiscard]] Result<Turn> enter(std::string_view call) const;
  /// Logs new commits and failures, on rank 0, and returns `result`.
  template <class T>
  [[nodiscard]] Result<T> told(Result<T> result) {
    tell_news();
    return result;
  }
  void tell_news();
  class JobRanks;
  Job& job_;
  std::string folder_;
  std::unique_ptr<CheckpointRanks> ranks_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::optional<std::int64_t> told_committed_;
  std::optional<Status> told_failure_;
};

}  // namespace lockstep::worker
