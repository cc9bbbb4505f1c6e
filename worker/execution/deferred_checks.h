// Checks of a run that a device has been asked to do and whose outcome nobody has waited for.
// Used by the executable.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/worker/execution/backend.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// One thread.
class DeferredChecks {
 public:
  /// `program` outlives it.
  explicit DeferredChecks(const Program& program) : program_(program) {}

  void forget() { started_.clear(); }
  /// The step was started; called in their order. Steps that are no such check do not count.
  void started(std::size_t step);
  /// Waits for those that were started, where there are any: the failure of the first of them, in
  /// the order of steps, that refuses its values. Else `known`, a failure that came after them;
  /// else the device's error, if it has one. Each check is reported once.
  [[nodiscard]] std::optional<LocalFailure> failure(Backend& backend, const RunValues& values,
                                                    std::optional<LocalFailure> known);

 private:
  const Program& program_;
  std::vector<std::size_t> started_;
};

}  // namespace lockstep::worker
