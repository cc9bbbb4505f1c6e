// Results of a recorded job's traces, by frame and decision, so that a dry run of its inputs knows
// the conditions that its programs rely on.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agreement/call_machine.h>

namespace lockstep::worker::simulator {

/// Filled by one thread; then it may be used from several.
class KnownTraces {
 public:
  void add(const std::string& frame, const Decision& decision, const TraceReport& report);
  /// Result of a trace of the frame under this decision: one recorded for the same decision, hints
  /// apart, that took the branches of these hints. If all traces of the decision failed, such a
  /// failure. null: not known.
  [[nodiscard]] const TraceReport* find(const std::string& frame, const Decision& decision) const;
  [[nodiscard]] bool empty() const { return traces_.empty(); }

 private:
  std::map<std::pair<std::string, shapes::Fingerprint>, std::vector<TraceReport>> traces_;
};

}  // namespace lockstep::worker::simulator
