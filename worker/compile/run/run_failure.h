// The errors that a running graph itself can produce, in the user's terms. Shared by the
// interpreter and the compiled program, so that both report the same.
#pragma once

#include <span>
#include <string>

#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Returns a function that names symbols: a backed symbol by its source, an unbacked symbol by the
/// node that binds it and the node's line. The result refers to `graph`.
[[nodiscard]] shapes::Namer symbol_namer(const Graph& graph);

/// RuntimeAssert: the predicate with source names, the user's line, the values of both sides.
[[nodiscard]] Status assert_failure(const Graph& graph, const Node& node,
                                    const shapes::Valuation& values);
/// RuntimeAssert: element `position` of the index operand is `index`, outside [0, limit).
[[nodiscard]] Status index_failure(const Graph& graph, NodeId node, std::int64_t position,
                                   std::int64_t index, std::int64_t limit);
/// RuntimeAssert: counts are negative or do not add up to `rows`.
[[nodiscard]] Status counts_failure(const Graph& graph, NodeId node,
                                    std::span<const std::int64_t> counts, std::int64_t rows);
/// Most elements of a value that is stored or reduced. Keeps loops within a time that anybody would
/// wait, and byte counts within an i64.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
/// Returns the product of sizes; nullopt if it overflows.
[[nodiscard]] std::optional<shapes::Expr> elements_of(const TensorMeta& meta);
/// A size is negative, or a number of elements is too large or not computable (no `value`).
/// RuntimeAssert, with the op and the user's line; Internal for a negative size that does not
/// depend on data.
[[nodiscard]] Status size_failure(const Graph& graph, const shapes::Expr& expr,
                                  std::optional<std::int64_t> value);

/// BadInput: an input's sizes are not those that the program was compiled for.
[[nodiscard]] Status input_size_failure(const Node& node, std::span<const std::int64_t> sizes,
                                        std::span<const std::int64_t> expected);

/// Environment: this process has no memory for the value of `node`.
[[nodiscard]] Status memory_failure(const Graph& graph, NodeId node, std::size_t bytes);
/// Environment: `device` has no memory for the value of `node`; `used` bytes are in use there.
[[nodiscard]] Status device_memory_failure(const Graph& graph, NodeId node,
                                           const std::string& device, std::size_t bytes,
                                           std::size_t used);

/// Internal: a counts exchange reported a failure, but the status round found none.
[[nodiscard]] Status missing_failure_error(const Graph& graph);

/// True if all counts are at least 0 and their sum is `rows`.
[[nodiscard]] bool counts_add_up(std::span<const std::int64_t> counts, std::int64_t rows);

/// Returns the value of a backed symbol: computed from inputs if the binding has steps; else
/// "x.size(1)" is a size of tensor x, and any other source is the 0-d i64 input of that name.
/// Errors: BadInput.
[[nodiscard]] Result<std::int64_t> bound_value(const SymbolBinding& binding, const Inputs& inputs);
/// Returns the input of an Input node. Errors: BadInput if it is missing, or has another dtype or
/// number of dims.
[[nodiscard]] Result<Array> bound_input(const Node& node, const Inputs& inputs);

}  // namespace lockstep::worker
