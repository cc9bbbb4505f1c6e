// Control flow in graphs: branches and loops that the run decides, where an `if` or a `for` of C++
// is decided while tracing. Their functions are traced once, as bodies (graph/control.h), and may
// use tensors of the code around them. A body gives tensors back; nothing else leaves it.
//
// Where a body holds a collective, all ranks of the frame have to go the same way: a predicate that
// is not proven to be the same (graph/uniform_facts.h) is compared before it is followed, and a
// difference is one error for all. Elsewhere each rank takes its own way in one and the same graph.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/autodiff/custom_backward.h>

namespace lockstep::worker {

/// What `then` gives for `inputs` where the 0-d bool `predicate` is true, else what `otherwise`
/// gives: as many tensors, of equal dtypes and sizes. The other one does not run. Its gradient is a
/// branch on the same predicate, which computes the forward function once more. Throws
/// TraceUsageError.
[[nodiscard]] std::vector<Tensor> cond(const Tensor& predicate, const TracedFunction& then,
                                       const TracedFunction& otherwise,
                                       const std::vector<Tensor>& inputs = {},
                                       Line where = Line::current());

/// One trip of a scan, or the whole of one.
struct Scanned {
  std::vector<Tensor> carry, ys;
};
/// From the carried values and row t of each of xs.
using ScanFunction =
    std::function<Scanned(const std::vector<Tensor>& carry, const std::vector<Tensor>& xs)>;

/// Runs `f` for each row of xs (at least one; all have as many rows), which gives the next carried
/// values, with dtypes and sizes as `init`, and values of this row. Returns the last carried values
/// (`init` where there are no rows) and the rows' values, stacked along a new dim 0. The gradient
/// keeps the carried values of all trips and computes the rest of each trip once more. Throws
/// TraceUsageError.
[[nodiscard]] Scanned scan(const ScanFunction& f, const std::vector<Tensor>& init,
                           const std::vector<Tensor>& xs, Line where = Line::current());

/// A 0-d bool from the carried values.
using LoopCondition = std::function<Tensor(const std::vector<Tensor>& carry)>;

/// The carried values after `f` has run on them as long as `condition` is true of them. A loop that
/// would go on after `most_trips` fails the step. It has no gradient: grad() through it throws.
/// Throws TraceUsageError.
[[nodiscard]] std::vector<Tensor> while_loop(const LoopCondition& condition,
                                             const TracedFunction& f,
                                             const std::vector<Tensor>& init,
                                             std::optional<std::int64_t> most_trips = std::nullopt,
                                             Line where = Line::current());

/// `f` as one node of the graph for each call: traced by itself, to infer what it gives, and run as
/// a program of its own. Its gradient is such a node, which computes `f` once more.
[[nodiscard]] TracedFunction allow_in_graph(TracedFunction f, Line where = Line::current());

/// Dtype and sizes of each result, from those of the inputs; a pure function. What it throws
/// refuses the inputs, with its words.
using ShapeRule = std::function<std::vector<TensorMeta>(std::span<const TensorMeta> inputs)>;
/// The same with sizes that the caller gives in place of the inferred ones. They have to be the
/// same: what tracing can refute is refused there, what it cannot prove is tested in the run, on
/// all ranks jointly.
[[nodiscard]] TracedFunction allow_in_graph(TracedFunction f, ShapeRule rule,
                                            Line where = Line::current());

}  // namespace lockstep::worker
