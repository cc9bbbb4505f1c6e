// A function traced and run by one rank alone, outside of a job.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/tensor/autodiff/custom_backward.h>

namespace lockstep::worker {

/// "x0", "x1", ..
[[nodiscard]] std::string numbered_input(std::size_t k);
/// Returns a decision for inputs of these dtypes and sizes; the sizes are numbers.
[[nodiscard]] Decision fixed_sizes(const std::vector<Array>& inputs);
/// Traces `f` on the inputs of the decision. Errors call the frame `name`. Errors: TraceError.
[[nodiscard]] Result<Graph> trace_on_one_rank(const std::string& name, const Decision& decision,
                                              const TracedFunction& f);
/// Run a graph, or a program, on this rank alone. Errors: those of the run.
[[nodiscard]] Result<std::vector<Array>> interpret_on_one_rank(const Graph& graph,
                                                               const std::vector<Array>& inputs);
[[nodiscard]] Result<std::vector<Array>> run_on_one_rank(Executable& program,
                                                         const std::vector<Array>& inputs);

}  // namespace lockstep::worker
