// Names of graphs and errors of calls, as all documents spell them.
#pragma once

#include <string>

#include <lockstep/coordinator/messages/call_event.h>

namespace lockstep::coordinator {

/// Empty for a call without a graph.
[[nodiscard]] inline std::string graph_name(const shapes::Fingerprint& graph) {
  return graph == shapes::Fingerprint{} ? "" : graph.text();
}
/// Empty for a call without an error.
[[nodiscard]] inline std::string error_name(CallEvent::Outcome outcome, Code code) {
  return outcome == CallEvent::Outcome::Error ? std::string(code_name(code)) : "";
}

}  // namespace lockstep::coordinator
