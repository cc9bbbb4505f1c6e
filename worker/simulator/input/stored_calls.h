// Calls of a scenario that are not held: each is read again when its turn comes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/simulator/input/partition.h>

namespace lockstep::worker::simulator {

/// Calls that were read once and found good. May be asked from several threads.
class StoredCalls {
 public:
  virtual ~StoredCalls() = default;
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// The ranks told apart by all calls.
  [[nodiscard]] virtual RankPartition partition() const = 0;
  /// Call `index`. Where one cannot be read any more it is a call that nobody makes, and so are all
  /// after that: who runs the calls asks for error() at the end.
  [[nodiscard]] std::shared_ptr<const ScenarioCall> call(std::size_t index) const;
  /// Why a call could not be read again; nullopt: all could.
  [[nodiscard]] std::optional<Status> error() const;

 private:
  [[nodiscard]] virtual Result<ScenarioCall> read(std::size_t index) const = 0;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::optional<Status> error_;
  mutable std::shared_ptr<const ScenarioCall> last_;  // several ask for a call one after another
  mutable std::size_t last_index_ = 0;
};

}  // namespace lockstep::worker::simulator
