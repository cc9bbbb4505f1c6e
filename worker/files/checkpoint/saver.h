// Saves checkpoints beside the running program. A thread writes a snapshot; votes find when all
// ranks have written; one rename makes the checkpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/worker/files/checkpoint/ranks.h>
#include <lockstep/worker/files/checkpoint/snapshot.h>
#include <lockstep/worker/files/checkpoint/stage.h>
#include <lockstep/worker/files/checkpoint/state.h>

namespace lockstep::worker {

struct CheckpointOptions {
  /// save() saves at steps that are a multiple of this; 1: at every call.
  std::int64_t every = 1;
  /// How many of the last checkpoints to keep; 0: all.
  int keep = 0;
  /// True: a save first removes the oldest checkpoints, so that the disk never holds more than
  /// `keep`, including the new one (two if keep is 1: the last one stays until the save is
  /// complete). False: a save removes them once it is complete. The disk then needs room for keep +
  /// 1 checkpoints: on a full disk every save fails.
  bool free_first = false;
  /// At each save, compares tensors that must be equal on several ranks, while the program runs.
  /// Their snapshot then takes memory on all these ranks, not only on the rank that writes them.
  bool compare_replicas = true;
  /// save() returns only when the checkpoint is complete.
  bool wait = false;
  /// True: a failed save is an error of save() and finish(). False: they succeed, and
  /// last_failure() returns the error.
  bool stop_on_failure = false;
  /// For tests.
  StageObserver at_stage{};
};

/// Work on a separate thread. The destructor waits for its end.
class BackgroundWork {
 public:
  ~BackgroundWork();
  void start(std::function<Result<void>()> work);
  [[nodiscard]] bool busy() const { return thread_.joinable() && !done_.load(); }
  /// Waits for the end of the work and returns its failure; nullopt: none.
  [[nodiscard]] std::optional<Status> take();

 private:
  std::thread thread_;
  std::atomic<bool> done_{false};
  std::optional<Status> failure_;
};

/// One per rank. All ranks make the same calls in the same order. Each call of save() advances a
/// save under way, by one vote; finish() ends it. The destructor abandons a save under way; the
/// next save to the folder removes its leftovers.
class CheckpointSaver {
 public:
  /// `ranks` outlives it.
  CheckpointSaver(CheckpointRanks& ranks, std::string folder, CheckpointOptions options);

  /// Advances the save under way. If `step` is due(), waits for the end of that save and begins a
  /// save of the current values of `leaves`. Returns true if it began one. Errors, joint: BadInput,
  /// ConstraintViolation (a state that cannot be saved), Environment; with `stop_on_failure` the
  /// error of a failed save.
  [[nodiscard]] Result<bool> save(std::int64_t step, const StateLeaves& leaves);
  /// True if save(step, leaves) would begin a save. Otherwise save() does the same as go_on(), and
  /// does not read its leaves.
  [[nodiscard]] bool due(std::int64_t step) const;
  /// Advances the save under way, if any. Errors: as save().
  [[nodiscard]] Result<void> go_on() { return advance(false); }
  /// Saves `step` even if it is not due(), unless it was the last step saved or loaded. Waits for
  /// the end of the save. Errors: as save().
  [[nodiscard]] Result<void> save_last(std::int64_t step, const StateLeaves& leaves);
  /// Waits for the end of the save under way. Errors: as save().
  [[nodiscard]] Result<void> finish();

  /// Notes that the state is that of the checkpoint of `step`, which is not saved again.
  void loaded(std::int64_t step) { last_ = step; }

  /// Step of the last checkpoint that this job committed; nullopt: none.
  [[nodiscard]] std::optional<std::int64_t> last_committed() const { return committed_; }
  /// Error of the last save that failed, equal on all ranks.
  [[nodiscard]] const std::optional<Status>& last_failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { Idle, Writing, Committing };
  [[nodiscard]] Result<bool> save_now(std::int64_t step, const StateLeaves& leaves);
  [[nodiscard]] Result<void> begin(std::int64_t step, const StateLeaves& leaves);
  [[nodiscard]] Result<void> agree(const std::vector<Piece>& pieces,
                                   const std::optional<Status>& failed);
  [[nodiscard]] std::optional<Status> make_place(std::int64_t step);
  void write(const StateLeaves& leaves, const std::vector<Piece>& pieces);
  /// Called when this rank's work has ended. Waits until all ranks' work has ended, and enters the
  /// next phase.
  [[nodiscard]] Result<void> next_phase();
  [[nodiscard]] Result<void> advance(bool to_the_end);
  [[nodiscard]] Result<void> failed(const Status& why);
  void at(CheckpointStage stage) const {
    if (options_.at_stage) options_.at_stage(stage);
  }

  CheckpointRanks& ranks_;
  std::string folder_;
  CheckpointOptions options_;
  std::string name_;     // name of all saves of this object, from rank 0
  bool agreed_ = false;  // true once writes_ is agreed, on all ranks alike
  std::vector<Piece> planned_;
  std::vector<bool> writes_;  // by number of the piece; false: a lower rank writes an equal one
  Phase phase_ = Phase::Idle;
  std::int64_t step_ = 0;  // step of the save under way
  std::string saving_;     // folder of the save under way
  std::optional<std::int64_t> last_, committed_;
  std::optional<Status> failure_;
  Snapshot snapshot_;
  BackgroundWork work_;  // last: its destructor ends the work before what it uses is destroyed
};

}  // namespace lockstep::worker
