// Results of a recorded job's traces, by frame and decision, so that a dry run of the recorded
// inputs knows the conditions that the programs rely on.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/agreement/call_machine.h>

namespace lockstep::worker::simulator {

/// Filled by one thread; then it may be used from several.
class KnownTraces {
 public:
  void add(const std::string& frame, const Decision& decision, const TraceReport& report);
  /// Returns a recorded trace of the frame for the same decision (hints apart) that took the
  /// branches of this decision's hints. If all recorded traces of the decision failed, returns one
  /// of them. null: none is known.
  [[nodiscard]] const TraceReport* find(const std::string& frame, const Decision& decision) const;
  [[nodiscard]] bool empty() const { return traces_.empty(); }

 private:
  std::map<std::pair<std::string, shapes::Fingerprint>, std::vector<TraceReport>> traces_;
};

}  // namespace lockstep::worker::simulator
