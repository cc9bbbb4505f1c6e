#include <chrono>
#include <exception>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/files/checkpoint/folder.h>
#include <lockstep/worker/files/checkpoint/piece_plan.h>
#include <lockstep/worker/files/checkpoint/saver.h>

namespace lockstep::worker {
namespace {

/// Returns a name that distinguishes this process's saves from those of other processes in the
/// folder.
std::string process_name() {
  return fmt::format("{:x}{:x}", ::getpid(),
                     std::chrono::system_clock::now().time_since_epoch().count());
}

}  // namespace

BackgroundWork::~BackgroundWork() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundWork::start(std::function<Result<void>()> work) {
  done_.store(false);
  thread_ = std::thread([this, work = std::move(work)] {
    try {
      if (auto done = work(); !done) failure_ = done.error();
    } catch (const std::exception& error) {  // out of memory
      failure_ =
          environment_error(fmt::format("the writer of a checkpoint failed: {}.", error.what()));
    }
    done_.store(true);
  });
}

std::optional<Status> BackgroundWork::take() {
  if (thread_.joinable()) thread_.join();
  return std::exchange(failure_, std::nullopt);
}

CheckpointSaver::CheckpointSaver(CheckpointRanks& ranks, std::string folder,
                                 CheckpointOptions options)
    : ranks_(ranks), folder_(std::move(folder)), options_(std::move(options)) {}

Result<bool> CheckpointSaver::save(std::int64_t step, const StateLeaves& leaves) {
  if (auto gone_on = advance(false); !gone_on) return gone_on.error();
  return due(step) ? save_now(step, leaves) : Result<bool>(false);
}

bool CheckpointSaver::due(std::int64_t step) const {
  return step >= 0 && step % std::max<std::int64_t>(1, options_.every) == 0 && step != last_;
}

Result<void> CheckpointSaver::save_last(std::int64_t step, const StateLeaves& leaves) {
  if (step != last_ && step >= 0)
    if (auto begun = save_now(step, leaves); !begun) return begun.error();
  return finish();
}

Result<bool> CheckpointSaver::save_now(std::int64_t step, const StateLeaves& leaves) {
  if (auto ended = advance(true); !ended) return ended.error();
  step_ = step;
  if (auto begun = begin(step, leaves); !begun) {
    if (begun.error().code != Code::Environment) return begun.error();
    if (auto goes_on = failed(begun.error()); !goes_on) return goes_on.error();
    return false;
  }
  if (options_.wait)
    if (auto ended = advance(true); !ended) return ended.error();
  return true;
}

Result<void> CheckpointSaver::finish() { return advance(true); }

Result<void> CheckpointSaver::begin(std::int64_t step, const StateLeaves& leaves) {
  auto pieces = pieces_of(leaves);
  std::optional<Status> failed;
  if (!pieces) failed = pieces.error(), pieces = std::vector<Piece>();
  if (!failed) failed = make_place(step);
  if (auto agreed = agree(*pieces, failed); !agreed) return agreed;
  last_ = step;
  saving_ = saving_folder(folder_, step, name_);
  std::vector<const Array*> arrays;
  for (std::size_t i = 0; i < pieces->size(); ++i)
    if (writes_[i] || options_.compare_replicas)
      arrays.push_back(&leaves.tensors()[i].tensor->array());
  phase_ = Phase::Writing;
  if (auto taken = snapshot_.take(arrays); !taken)
    work_.start([why = taken.error()]() -> Result<void> { return why; });
  else
    write(leaves, *pieces);
  return {};
}

/// Rank 0 makes the folder of the save, before other ranks write to it.
std::optional<Status> CheckpointSaver::make_place(std::int64_t step) {
  if (ranks_.rank().value != 0) return std::nullopt;
  if (name_.empty()) name_ = process_name();
  auto made = make_folder(folder_);
  if (made) made = remove_leftovers(folder_);
  if (made && options_.free_first && options_.keep > 0)
    made = remove_older(folder_, std::max(1, options_.keep - 1),
                        [this](CheckpointStage stage) { at(stage); });
  if (made) made = make_folder(saving_folder(folder_, step, name_));
  if (!made) return made.error();
  at(CheckpointStage::FolderMade);
  return std::nullopt;
}

Result<void> CheckpointSaver::agree(const std::vector<Piece>& pieces,
                                    const std::optional<Status>& failed) {
  const auto changed = ranks_.any(!agreed_ || pieces != planned_, failed);
  if (!changed) return changed.error();
  if (!*changed) return {};
  PiecePlan plan(ranks_.rank(), ranks_.rank().value == 0 ? name_ : "", pieces);
  if (auto told = ranks_.talk(plan); !told) return told.error();
  // An error of the plan is equal on all ranks, so it needs no vote.
  auto writes = plan.writes();
  agreed_ = false;
  if (!writes) return writes.error();
  name_ = plan.save();
  agreed_ = true;
  planned_ = pieces;
  writes_ = *std::move(writes);
  return {};
}

void CheckpointSaver::write(const StateLeaves& leaves, const std::vector<Piece>& pieces) {
  auto content = std::make_shared<RankFileContent>();
  content->name = {name_, step_, ranks_.rank().value, ranks_.size()};
  std::size_t copied = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!writes_[i] && !options_.compare_replicas) continue;
    auto& to = writes_[i] ? content->written : content->replicas;
    to.push_back({pieces[i], snapshot_.bytes(copied++)});
  }
  for (const StateValue& value : leaves.values()) content->values.push_back(value.value);
  const std::string path = fmt::format("{}/{}", saving_, rank_file_name(ranks_.rank().value));
  work_.start([this, content, path] {
    return write_rank_file(path, *content, [this](CheckpointStage stage) { at(stage); });
  });
}

Result<void> CheckpointSaver::advance(bool to_the_end) {
  while (phase_ != Phase::Idle) {
    if (to_the_end) {
      while (work_.busy()) {
        ranks_.report_busy();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    } else {
      const auto busy = ranks_.any(work_.busy());
      if (!busy) return busy.error();
      if (*busy) return {};
    }
    if (auto next = next_phase(); !next) return next;
    if (!to_the_end) return {};
  }
  return {};
}

Result<void> CheckpointSaver::next_phase() {
  // In the phase Writing this vote tells all ranks whether all have written; in the phase
  // Committing, whether the checkpoint has its name.
  if (auto all = ranks_.settle(work_.take()); !all) return failed(all.error());
  if (phase_ == Phase::Committing) {
    phase_ = Phase::Idle;
    committed_ = step_;
    return {};
  }
  at(CheckpointStage::AllWritten);
  phase_ = Phase::Committing;
  if (ranks_.rank().value != 0) return {};
  work_.start([this] {
    return commit_checkpoint(folder_, saving_, step_, ranks_.size(), options_.keep,
                             [this](CheckpointStage stage) { at(stage); });
  });
  return {};
}

Result<void> CheckpointSaver::failed(const Status& why) {
  phase_ = Phase::Idle;
  failure_ = why;
  failure_->message = fmt::format("the checkpoint of step {}: {}", step_, why.message);
  if (is_full(why) && options_.keep > 0)
    failure_->message += fmt::format(
        " Older checkpoints stay until a newer one is complete: make room, {}.",
        options_.free_first ? "or keep fewer of them"
                            : "or set free_first, which removes the oldest before each save");
  if (why.code == Code::RankLost || why.code == Code::Stuck || why.code == Code::Gone ||
      why.code == Code::FrameMismatch)
    return why;  // an error of the job, not of the checkpoint
  if (options_.stop_on_failure) return *failure_;
  return {};
}

}  // namespace lockstep::worker
