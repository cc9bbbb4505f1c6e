// Graphs that together hold every op that has a kernel, each value an output of its own, with
// inputs for them. Tests compare their compiled programs with the interpreter.
#pragma once

#include <optional>
#include <random>

#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Two sizes, symbols or numbers.
struct Extent {
  shapes::Expr a, b;
};

/// Makes a graph of inputs `dtype` [a, b]; without `fixed` the sizes are symbols.
using GraphMaker = Graph (*)(DType dtype, const std::optional<Extent>& fixed);
/// Elementwise ops and views of x and y [a, b], each an output of its own. For f16 and bf16, this
/// graph and index_graph have only ops that do not compute with them.
[[nodiscard]] Graph elementwise_graph(DType dtype, const std::optional<Extent>& fixed);
[[nodiscard]] Graph view_graph(DType dtype, const std::optional<Extent>& fixed);
/// Requires a dtype other than bool, f16 and bf16: reductions take numbers that can be computed
/// with.
[[nodiscard]] Graph reduction_graph(DType dtype, const std::optional<Extent>& fixed);
/// Products, scans, sorting and searching along rows. Requires a dtype as in reduction_graph.
[[nodiscard]] Graph order_graph(DType dtype, const std::optional<Extent>& fixed);
/// Gather, index-add, sorting and scans.
[[nodiscard]] Graph index_graph(DType dtype, const std::optional<Extent>& fixed);
/// Requires f32 or f64, the dtypes of products.
[[nodiscard]] Graph product_graph(DType dtype, const std::optional<Extent>& fixed);

/// Inputs for any of these graphs; `special`: with infinities and NaN.
[[nodiscard]] Inputs inputs_for(std::mt19937_64& random, DType dtype, std::int64_t a,
                                std::int64_t b, bool special);

}  // namespace lockstep::worker
