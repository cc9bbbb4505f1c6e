// Sizes of a run that are rounded up to those that are captured (capture_options.h). Used by the
// executable.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/execution/capture_options.h>
#include <lockstep/worker/run/run_values.h>

namespace lockstep::worker {

/// One thread.
class RoundedRows {
 public:
  /// `graph` outlives it.
  RoundedRows(const Graph& graph, CaptureOptions options);

  /// For a run whose sizes are bound: to the next listed ones. False: the run is not to be
  /// captured, and is as it was.
  [[nodiscard]] bool round_up(RunValues& values);
  /// Forgets the run.
  void forget() { given_.clear(); }
  /// The rows that a value of these sizes has without those appended in this run; nullopt: it has
  /// none that were.
  [[nodiscard]] std::optional<std::int64_t> given(std::span<const shapes::Expr> sizes) const;

 private:
  const Graph& graph_;
  CaptureOptions options_;
  std::vector<shapes::Symbol> rows_;              // that may be rounded up
  std::map<shapes::Symbol, std::int64_t> given_;  // of the symbols that were
};

}  // namespace lockstep::worker
