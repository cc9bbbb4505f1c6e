// Rounds sizes of a run up to sizes that are captured (capture_options.h). Used by the executable.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/compile/execution/capture_options.h>
#include <lockstep/worker/compile/run/run_values.h>

namespace lockstep::worker {

/// Single-threaded.
class RoundedRows {
 public:
  /// `graph` outlives it.
  RoundedRows(const Graph& graph, CaptureOptions options);

  /// Rounds the bound sizes of a run up to the next listed ones. False: the run cannot be captured;
  /// its sizes are unchanged.
  [[nodiscard]] bool round_up(RunValues& values);
  /// Forgets the run.
  void forget() { given_.clear(); }
  /// Returns the number of rows of a value of these sizes without the rows appended in this run;
  /// nullopt if none were appended.
  [[nodiscard]] std::optional<std::int64_t> given(std::span<const shapes::Expr> sizes) const;

 private:
  const Graph& graph_;
  CaptureOptions options_;
  std::vector<shapes::Symbol> rows_;              // symbols that may be rounded up
  std::map<shapes::Symbol, std::int64_t> given_;  // the original sizes of rounded symbols
};

}  // namespace lockstep::worker
