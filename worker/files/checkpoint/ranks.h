// The ranks that save and load together: votes, gathers, and talks along a tree. Implemented by a
// job of the worker, and by threads in tests.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::worker {

/// Single-threaded. All ranks make the same calls in the same order.
class CheckpointRanks {
 public:
  virtual ~CheckpointRanks() = default;
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Returns true on all ranks if `mine` is true on any. If a rank has failed, all return its
  /// error.
  [[nodiscard]] virtual Result<bool> any(bool mine, const std::optional<Status>& failed = {}) = 0;
  /// Returns success if no rank has failed; else all ranks return the same error.
  [[nodiscard]] virtual Result<void> settle(const std::optional<Status>& failed = {}) = 0;
  /// Gathers a payload from every rank, in rank order.
  [[nodiscard]] virtual Result<std::vector<Bytes>> all_gather(Bytes mine) = 0;
  /// Sends a message from each rank up the tree, and an answer to each rank back down.
  [[nodiscard]] virtual Result<void> talk(collectives::TreeTalk& mine) = 0;
  /// Reports that this rank is busy, so that peers that wait do not report it as stuck.
  virtual void report_busy() = 0;
};

}  // namespace lockstep::worker
