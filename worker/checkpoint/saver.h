// Saves checkpoints beside the running program: a snapshot, a thread that writes it, votes by which
// the ranks find that all have written, and one rename that makes the checkpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/worker/checkpoint/ranks.h>
#include <lockstep/worker/checkpoint/snapshot.h>
#include <lockstep/worker/checkpoint/stage.h>
#include <lockstep/worker/checkpoint/state.h>

namespace lockstep::worker {

struct CheckpointOptions {
  /// save() saves at steps that this divides; 1: at every call.
  std::int64_t every = 1;
  /// So many checkpoints stay, the last ones; 0: all.
  int keep = 0;
  /// A save begins by removing the oldest ones, so that with it no more than `keep` take up the
  /// disk at any time; but two with keep = 1, since the last one stays until the save is complete.
  /// Else they go when it is complete: a disk that has no room for one more then stays full, and
  /// every save fails.
  bool free_first = false;
  /// Tensors that are the same on all ranks are compared at each save, beside the running program;
  /// their snapshot then takes memory on all ranks, not on one.
  bool compare_replicas = true;
  /// save() returns only when the checkpoint is there.
  bool wait = false;
  /// A save that has failed is an error of save() and finish(); else they go on, and
  /// last_failure() has it.
  bool stop_on_failure = false;
  /// For tests.
  StageObserver at_stage{};
};

/// Work on a thread of its own. Destroyed, it waits for the end of the work.
class BackgroundWork {
 public:
  ~BackgroundWork();
  void start(std::function<Result<void>()> work);
  [[nodiscard]] bool busy() const { return thread_.joinable() && !done_.load(); }
  /// What it came to; waits for it. nullopt: no failure.
  [[nodiscard]] std::optional<Status> take();

 private:
  std::thread thread_;
  std::atomic<bool> done_{false};
  std::optional<Status> failure_;
};

/// One per rank. All ranks make the same calls in the same order. A save under way goes on in each
/// call of save(), by one vote, and ends in finish(); destroyed before, it is given up, and the
/// next save of the folder removes what it has left.
class CheckpointSaver {
 public:
  /// `ranks` outlives it.
  CheckpointSaver(CheckpointRanks& ranks, std::string folder, CheckpointOptions options);

  /// Goes on with the save under way. If `step` is one to save at, and not that of the last save:
  /// waits for the end of the save under way and begins one of what `leaves` are now. True: it did.
  /// Errors, joint: BadInput, ConstraintViolation (a state that cannot be saved), Environment;
  /// that of a failed save with `stop_on_failure`.
  [[nodiscard]] Result<bool> save(std::int64_t step, const StateLeaves& leaves);
  /// save() of this step saves it, and looks at leaves; else it only does as go_on() does.
  [[nodiscard]] bool due(std::int64_t step) const;
  /// Goes on with the save under way, if there is one. Errors: as save().
  [[nodiscard]] Result<void> go_on() { return advance(false); }
  /// Saves at any step, unless a save of it was the last to begin, and waits for its end. Errors:
  /// as save().
  [[nodiscard]] Result<void> save_last(std::int64_t step, const StateLeaves& leaves);
  /// Waits for the end of the save under way. Errors: as save().
  [[nodiscard]] Result<void> finish();

  /// The state is that of a checkpoint of `step`, which is not saved again.
  void loaded(std::int64_t step) { last_ = step; }

  /// Of the last checkpoint that was committed by this job; nullopt: none was.
  [[nodiscard]] std::optional<std::int64_t> last_committed() const { return committed_; }
  /// Of the last save that failed, the same on all ranks.
  [[nodiscard]] const std::optional<Status>& last_failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { Idle, Writing, Committing };
  [[nodiscard]] Result<bool> save_now(std::int64_t step, const StateLeaves& leaves);
  [[nodiscard]] Result<void> begin(std::int64_t step, const StateLeaves& leaves);
  [[nodiscard]] Result<void> agree(const std::vector<Piece>& pieces,
                                   const std::optional<Status>& failed);
  [[nodiscard]] std::optional<Status> make_place(std::int64_t step);
  void write(const StateLeaves& leaves, const std::vector<Piece>& pieces);
  /// The work of this rank has ended, as that of all others has.
  [[nodiscard]] Result<void> next_phase();
  [[nodiscard]] Result<void> advance(bool to_the_end);
  [[nodiscard]] Result<void> failed(const Status& why);
  void at(CheckpointStage stage) const {
    if (options_.at_stage) options_.at_stage(stage);
  }

  CheckpointRanks& ranks_;
  std::string folder_;
  CheckpointOptions options_;
  std::string name_;     // of this process's saves, given by rank 0
  bool agreed_ = false;  // on who writes what, on all ranks alike
  std::vector<Piece> planned_;
  std::vector<bool> writes_;  // by number of the piece; else a lower rank writes an equal one
  Phase phase_ = Phase::Idle;
  std::int64_t step_ = 0;  // of the save under way
  std::string saving_;     // its folder
  std::optional<std::int64_t> last_, committed_;
  std::optional<Status> failure_;
  Snapshot snapshot_;
  BackgroundWork work_;  // last: it ends before what it uses
};

}  // namespace lockstep::worker
