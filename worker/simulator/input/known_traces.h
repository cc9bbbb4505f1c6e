// What the traces of a recorded job came to, by frame and decision, so that a dry run of its inputs
// knows the conditions that its programs rely on.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agreement/call_machine.h>

namespace lockstep::worker::simulator {

/// One thread fills it; then it may be asked from several.
class KnownTraces {
 public:
  void add(const std::string& frame, const Decision& decision, const TraceReport& report);
  /// What a trace of the frame under this decision comes to: one that was recorded for the same
  /// decision, but for hints, and took the branches that these hints take; where all traces of the
  /// decision failed, such a failure. null: not known.
  [[nodiscard]] const TraceReport* find(const std::string& frame, const Decision& decision) const;
  [[nodiscard]] bool empty() const { return traces_.empty(); }

 private:
  std::map<std::pair<std::string, shapes::Fingerprint>, std::vector<TraceReport>> traces_;
};

}  // namespace lockstep::worker::simulator
