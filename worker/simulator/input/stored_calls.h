// Calls of a scenario that are not held: each is read again when it is needed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/simulator/input/partition.h>

namespace lockstep::worker::simulator {

/// Calls that were read once and found valid. May be used from several threads.
class StoredCalls {
 public:
  virtual ~StoredCalls() = default;
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// Partition of the ranks by all calls.
  [[nodiscard]] virtual RankPartition partition() const = 0;
  /// Call `index`. Once a call could not be read again, returns only calls without ranks; the
  /// caller checks error() at the end.
  [[nodiscard]] std::shared_ptr<const ScenarioCall> call(std::size_t index) const;
  /// Reason why a call could not be read again; nullopt: all could.
  [[nodiscard]] std::optional<Status> error() const;

 private:
  [[nodiscard]] virtual Result<ScenarioCall> read(std::size_t index) const = 0;

  mutable std::mutex mutex_;  // guards the members below
  mutable std::optional<Status> error_;
  mutable std::shared_ptr<const ScenarioCall> last_;  // the last call read, because it is often
                                                      // read again at once
  mutable std::size_t last_index_ = 0;
};

}  // namespace lockstep::worker::simulator
