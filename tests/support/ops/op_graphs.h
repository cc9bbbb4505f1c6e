// Graphs that between them hold every op that has a kernel, each value an output of its own, and
// inputs for them. What is compiled from them is compared with the interpreter.
#pragma once

#include <optional>
#include <random>

#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// Two sizes, symbols or numbers.
struct Extent {
  shapes::Expr a, b;
};

/// Of inputs `dtype` [a, b]; without `fixed` the sizes are symbols.
using GraphMaker = Graph (*)(DType dtype, const std::optional<Extent>& fixed);
/// Elementwise ops and views of x and y [a, b], each an output of its own. Of f16 and bf16 only
/// what does not compute with them, here and in index_graph.
[[nodiscard]] Graph elementwise_graph(DType dtype, const std::optional<Extent>& fixed);
[[nodiscard]] Graph view_graph(DType dtype, const std::optional<Extent>& fixed);
/// Not of bool, f16 and bf16: reductions take numbers that can be computed with.
[[nodiscard]] Graph reduction_graph(DType dtype, const std::optional<Extent>& fixed);
/// Products, scans, sorting and searching along rows. Of numbers that can be computed with.
[[nodiscard]] Graph order_graph(DType dtype, const std::optional<Extent>& fixed);
/// Gather, index-add, sorting and scans.
[[nodiscard]] Graph index_graph(DType dtype, const std::optional<Extent>& fixed);
/// Of f32 and f64: products are.
[[nodiscard]] Graph product_graph(DType dtype, const std::optional<Extent>& fixed);

/// Of each of these graphs; `special`: with infinities and NaN.
[[nodiscard]] Inputs inputs_for(std::mt19937_64& random, DType dtype, std::int64_t a,
                                std::int64_t b, bool special);

}  // namespace lockstep::worker
