// Control flow in graphs: branches and loops decided in the run, whereas an `if` or a `for` of C++
// is decided while tracing. Their functions are traced once, as bodies (graph/control.h), and may
// use outer tensors. A body returns tensors; nothing else leaves it.
//
// If a body holds a collective, all ranks of the frame have to take the same branch: a predicate
// that is not proven to be the same (graph/uniform_facts.h) is compared first, and a difference is
// one error for all. Otherwise each rank takes its own branch in the same graph.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/tensor/autodiff/custom_backward.h>

namespace lockstep::worker {

/// The results of `then` on `inputs` if the 0-d bool `predicate` is true, else those of
/// `otherwise`: as many tensors, of equal dtypes and sizes. The other function does not run. The
/// gradient is a branch on the same predicate, which computes the forward function again. Throws
/// TraceUsageError.
[[nodiscard]] std::vector<Tensor> cond(const Tensor& predicate, const TracedFunction& then,
                                       const TracedFunction& otherwise,
                                       const std::vector<Tensor>& inputs = {},
                                       Line where = Line::current());

/// Results of one trip of a scan, or of the whole scan.
struct Scanned {
  std::vector<Tensor> carry, ys;
};
/// One trip, from the carried values and row t of each of xs.
using ScanFunction =
    std::function<Scanned(const std::vector<Tensor>& carry, const std::vector<Tensor>& xs)>;

/// Runs `f` for each row of xs (at least one; all have as many rows). `f` returns the next carried
/// values, with dtypes and sizes as `init`, and values of this row. Returns the last carried values
/// (`init` if there are no rows) and the rows' values, stacked along a new dim 0. The gradient
/// keeps the carried values of all trips and computes the rest of each trip again. Throws
/// TraceUsageError.
[[nodiscard]] Scanned scan(const ScanFunction& f, const std::vector<Tensor>& init,
                           const std::vector<Tensor>& xs, Line where = Line::current());

/// A 0-d bool from the carried values.
using LoopCondition = std::function<Tensor(const std::vector<Tensor>& carry)>;

/// The carried values after running `f` on them while `condition` holds. A loop that would exceed
/// `most_trips` fails the step. There is no gradient: grad() through it throws. Throws
/// TraceUsageError.
[[nodiscard]] std::vector<Tensor> while_loop(const LoopCondition& condition,
                                             const TracedFunction& f,
                                             const std::vector<Tensor>& init,
                                             std::optional<std::int64_t> most_trips = std::nullopt,
                                             Line where = Line::current());

/// Makes each call of `f` one node of the graph: `f` is traced separately, which infers its
/// results, and run as a program of its own. The gradient is a node of the same kind, which
/// computes `f` again.
[[nodiscard]] TracedFunction allow_in_graph(TracedFunction f, Line where = Line::current());

/// Dtype and sizes of each result, from those of the inputs; a pure function. An exception refuses
/// the inputs, with its message.
using ShapeRule = std::function<std::vector<TensorMeta>(std::span<const TensorMeta> inputs)>;
/// As above, with sizes that the caller gives in place of the inferred ones. Given and inferred
/// sizes have to be equal: sizes that tracing refutes are refused, sizes that it cannot prove are
/// tested in the run, on all ranks jointly.
[[nodiscard]] TracedFunction allow_in_graph(TracedFunction f, ShapeRule rule,
                                            Line where = Line::current());

}  // namespace lockstep::worker
