// Checks of a run that have been started on a device and whose outcome is not yet known. Used by
// the executable.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/worker/compile/execution/backend.h>
#include <lockstep/worker/compile/run/run_host.h>

namespace lockstep::worker {

/// Single-threaded.
class DeferredChecks {
 public:
  /// `program` outlives it.
  explicit DeferredChecks(const Program& program) : program_(program) {}

  void forget() { started_.clear(); }
  /// Records that a step was started; called in the order of steps. Ignores steps that are no
  /// deferred check.
  void started(std::size_t step);
  /// Waits for the started checks, if any. Returns the failure of the first check, in the order of
  /// steps, that refuses its values; else `known`, a failure of a later step; else the device's
  /// error, if it has one. Each check is reported once.
  [[nodiscard]] std::optional<LocalFailure> failure(Backend& backend, const RunValues& values,
                                                    std::optional<LocalFailure> known);

 private:
  const Program& program_;
  std::vector<std::size_t> started_;
};

}  // namespace lockstep::worker
