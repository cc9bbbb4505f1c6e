// The ranks that save and load together, as a checkpoint needs them: votes, a word of each to all,
// and talks along a tree. A job of the worker, or threads in a test.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::worker {

/// One thread. All ranks make the same calls in the same order.
class CheckpointRanks {
 public:
  virtual ~CheckpointRanks() = default;
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// True on all if `mine` is true on any. Where a rank has failed, its error is that of all.
  [[nodiscard]] virtual Result<bool> any(bool mine, const std::optional<Status>& failed = {}) = 0;
  /// Success if no rank has failed; else the same error on all.
  [[nodiscard]] virtual Result<void> settle(const std::optional<Status>& failed = {}) = 0;
  /// What every rank says, in rank order.
  [[nodiscard]] virtual Result<std::vector<Bytes>> tell_all(Bytes mine) = 0;
  /// A word of each up the tree, an answer to each down again.
  [[nodiscard]] virtual Result<void> talk(collectives::TreeTalk& mine) = 0;
  /// This rank is at work: those who wait for it are to wait on.
  virtual void at_work() = 0;
};

}  // namespace lockstep::worker
