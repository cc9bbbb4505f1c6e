// The exchange of counts that also carries whether a rank has failed: every message of this
// all_to_all has one more row, whose first number is 1 if the sender failed. All ranks learn of
// failures from messages that they exchange anyway. Called by JointRun.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/collectives/communicator.h>

namespace lockstep::worker {

/// Keeps its memory between exchanges. Single-threaded.
class CarriedStatus {
 public:
  /// Runs `counts`, an all_to_all of i64 with equal splits. A rank that failed sends zeros and
  /// needs no buffers. Returns true on all ranks if any of them failed. Errors: the communicator's.
  [[nodiscard]] Result<bool> all_to_all_with_status(collectives::Communicator& communicator,
                                                    collectives::Collective counts, bool failed);

 private:
  std::vector<std::int64_t> send_, receive_, rows_;
};

}  // namespace lockstep::worker
