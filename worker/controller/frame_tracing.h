// The controller's trace of a frame for its workers: traces under their decision, and returns the
// graph as a saved program.
#pragma once

#include <functional>
#include <string>

#include <lockstep/worker/controller/messages/reply.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {

/// Records the frame's function into a trace.
using RecordFrame = std::function<void(Trace&)>;

/// Identifies the inputs of a call by names and kinds of their sources. A function is traced with
/// the example inputs that have the same key.
[[nodiscard]] std::string inputs_key(const std::vector<SourceSpec>& sources);

/// A request of the workers for a trace, decoded.
struct WantedTrace {
  Decision decision;
  std::string key;  // inputs_key()
};
/// Errors: BadInput (not a request for a trace).
[[nodiscard]] Result<WantedTrace> wanted_trace(const TraceRequest& asked);

struct MadeTrace {
  Result<Graph> graph;
  std::string question;  // the trace's question to all workers, in place of a graph; empty: none
};
/// Errors of the graph: TraceError.
[[nodiscard]] MadeTrace trace_for(const std::string& frame, const TraceRequest& asked,
                                  const WantedTrace& wanted, const RecordFrame& record);
/// Returns the answer with the graph, the reason why there is none, or the question.
[[nodiscard]] TraceAnswer answer_with(const std::string& frame, const TraceRequest& asked,
                                      const WantedTrace& wanted, MadeTrace made);

}  // namespace lockstep::worker
