// The controller's trace of a frame for its workers: their decision in, a graph as a saved program
// out.
#pragma once

#include <functional>
#include <string>

#include <lockstep/worker/controller/speech/reply.h>
#include <lockstep/worker/trace/tracer.h>

namespace lockstep::worker {

/// Records the frame's function into a trace.
using RecordFrame = std::function<void(Trace&)>;

/// Which inputs a call has: names and kinds of its sources. A function is traced with the example
/// of its inputs that has the same.
[[nodiscard]] std::string inputs_key(const std::vector<SourceSpec>& sources);

/// What the workers ask about, decoded.
struct WantedTrace {
  Decision decision;
  std::string key;  // inputs_key()
};
/// Errors: BadInput (no such question).
[[nodiscard]] Result<WantedTrace> wanted_trace(const TraceAsked& asked);

struct MadeTrace {
  Result<Graph> graph;
  std::string question;  // what all workers are to be asked before there is one; empty: nothing
};
/// Errors of the graph: TraceError.
[[nodiscard]] MadeTrace trace_for(const std::string& frame, const TraceAsked& asked,
                                  const WantedTrace& wanted, const RecordFrame& record);
/// The answer with this graph, with why there is none, or with the question.
[[nodiscard]] TraceAnswer answer_with(const std::string& frame, const TraceAsked& asked,
                                      const WantedTrace& wanted, MadeTrace made);

}  // namespace lockstep::worker
