// Infers valid inputs of a traced function: the classes of sizes, each served by one entry, which
// together cover a box (shapes/size_classes.h). The function is traced at the least point of each
// class, and the graph is run there by the interpreter. No other rank takes part; questions to the
// group are answered as if all ranks were like this one. Called for users only, never for a
// decision.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <lockstep/shapes/size_classes.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {

struct InferOptions {
  /// The values of each size and int that is a symbol.
  shapes::Range box{0, 64};
  std::size_t classes = 64;  // maximum number
  /// The dims and ints that are symbols, by name: "x.size(0)". nullopt: the symbols of the frame's
  /// entry for inputs like these that has most symbols; if there is no such entry, all dims and
  /// ints that are not marked static.
  std::optional<std::set<std::string>> symbols{};
  /// As SizeClassLimits::solver.
  shapes::PointSolver solver{};
};

/// Result of the trace and the run at the example of one class.
struct ExampleTrace {
  std::optional<Status> error;         // of the trace
  std::optional<Status> run_error;     // of the run; the trace succeeded
  std::string not_run;                 // why the graph was not run; the trace succeeded
  std::vector<std::string> given;      // TraceConditions::values, true for these inputs
  std::shared_ptr<const Graph> graph;  // null: error
};

struct InferredFrame {
  std::string frame, group;
  int ranks = 1;  // number of ranks in the frame's group
  shapes::SizeBox box;
  std::vector<std::string> names;  // names of the box's sides
  shapes::SizeClasses cover;
  std::vector<ExampleTrace> examples;  // by class
};

/// The function and inputs to infer about. The observation has the sizes of the given inputs, which
/// are replaced by those of each point.
struct InferQuestion {
  Decision decision;  // its hints and bounds of sizes are ignored
  Observation observation;
  std::span<const InputValue> values;  // by source
  /// Makes the setup of a trace under a decision, with an observation.
  std::function<TraceSetup(const Decision&, const Observation&)> setup;
  std::function<void(Trace&)> body;
  /// Runs a graph on inputs; null: examples are not run.
  std::function<Result<std::vector<Array>>(const Graph&, Inputs)> run;
};

/// Errors: BadInput (an invalid box, or static sizes that the frame's constraints rule out).
[[nodiscard]] Result<InferredFrame> infer_classes(InferQuestion question,
                                                  const InferOptions& options);

/// A decision for inputs like `observation`. The dims and ints that are sources of `symbols` become
/// these symbols; nullopt: all dims and ints that are not marked static become symbols. Errors:
/// BadInput (a source that is no size or int of the inputs).
[[nodiscard]] Result<Decision> decision_about(
    const Observation& observation, const std::optional<std::vector<SymbolDecision>>& symbols);

/// One line of JSON: an element of "frames" in the output of `lockstep infer --json`.
[[nodiscard]] std::string infer_json(const InferredFrame& frame);

}  // namespace lockstep::worker
