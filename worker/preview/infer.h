// Valid inputs of a traced function, inferred: the classes of sizes that one entry serves each, as
// a cover of a box (shapes/size_classes.h). The function is traced at the least point of each class
// and the graph run there by the interpreter. Asks no other rank anything; what ranks would answer
// together is answered as if all were like this one. Called by those who ask, never by anything
// that decides.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <lockstep/shapes/size_classes.h>
#include <lockstep/worker/language/inputs.h>
#include <lockstep/worker/run/run_host.h>
#include <lockstep/worker/trace/tracer.h>

namespace lockstep::worker {

struct InferOptions {
  /// The values of each size and int that is a symbol.
  shapes::Range box{0, 64};
  std::size_t classes = 64;  // at most
  /// Which dims and ints are symbols, by name: "x.size(0)". nullopt: those of the frame's entry
  /// with the most of them for inputs like these; without an entry all that are not marked static.
  std::optional<std::set<std::string>> symbols{};
  /// As SizeClassLimits::solver.
  shapes::PointSolver solver{};
};

/// What the trace and the run at the example of one class came to.
struct ExampleTrace {
  std::optional<Status> error;         // of the trace
  std::optional<Status> run_error;     // of the run; the trace was well
  std::string not_run;                 // why it was not run, though the trace was well
  std::vector<std::string> given;      // TraceReliance::values: hold for the inputs that were given
  std::shared_ptr<const Graph> graph;  // null: error
};

struct InferredFrame {
  std::string frame, group;
  int ranks = 1;  // of its group
  shapes::SizeBox box;
  std::vector<std::string> names;  // of the box's sides
  shapes::SizeClasses cover;
  std::vector<ExampleTrace> examples;  // by class
};

/// What is asked about. Sizes of the observation are those of the inputs that were given; they are
/// replaced by those of each point.
struct InferQuestion {
  Decision decision;  // its hints and bounds of sizes are not looked at
  Observation observation;
  std::span<const InputValue> values;  // by source
  /// For a trace under this decision, with these inputs.
  std::function<TraceSetup(const Decision&, const Observation&)> setup;
  std::function<void(Trace&)> body;
  /// Runs a graph on inputs; null: examples are not run.
  std::function<Result<std::vector<Array>>(const Graph&, Inputs)> run;
};

/// Errors: BadInput (a box that is none, a name that is no size of the inputs, sizes that the
/// frame's constraints rule out altogether).
[[nodiscard]] Result<InferredFrame> infer_classes(InferQuestion question,
                                                  const InferOptions& options);

/// A decision for inputs like these: dims and ints that are `symbols`, by their sources, are
/// symbols of that kind; nullopt: all that are not marked static. Errors: BadInput (a source that
/// is no size or int of them).
[[nodiscard]] Result<Decision> decision_about(
    const Observation& observation, const std::optional<std::vector<SymbolDecision>>& symbols);

/// One line of JSON: an element of "frames" in what `lockstep infer --json` prints.
[[nodiscard]] std::string infer_json(const InferredFrame& frame);

}  // namespace lockstep::worker
