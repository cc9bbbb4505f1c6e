// The errors that a running graph can make of its own accord, in the user's terms. Shared by the
// interpreter and the compiled program, so that both say the same.
#pragma once

#include <span>
#include <string>

#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// Names a symbol by its source; an unbacked one by the node that binds it and its line. Refers to
/// `graph`.
[[nodiscard]] shapes::Namer symbol_namer(const Graph& graph);

/// RuntimeAssert: the predicate with source names, the user's line, the values of both sides.
[[nodiscard]] Status assert_failure(const Graph& graph, const Node& node,
                                    const shapes::Valuation& values);
/// RuntimeAssert: element `position` of the index operand is `index`, outside [0, limit).
[[nodiscard]] Status index_failure(const Graph& graph, NodeId node, std::int64_t position,
                                   std::int64_t index, std::int64_t limit);
/// RuntimeAssert: counts that are negative or do not add up to `rows`.
[[nodiscard]] Status counts_failure(const Graph& graph, NodeId node,
                                    std::span<const std::int64_t> counts, std::int64_t rows);
/// More elements than this are neither stored nor reduced: nobody waits for such a loop, and their
/// bytes can be counted.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
/// The product of sizes; none where it cannot be written down.
[[nodiscard]] std::optional<shapes::Expr> elements_of(const TensorMeta& meta);
/// Of a size that is negative, or of elements that are too many or cannot be counted (no value).
/// RuntimeAssert, with the op and the user's line; Internal where it is negative and no data has
/// told it.
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

/// Internal: a counts exchange told of a failure that no rank owns up to.
[[nodiscard]] Status told_but_not_found(const Graph& graph);

/// All counts are at least 0 and their sum is `rows`.
[[nodiscard]] bool counts_add_up(std::span<const std::int64_t> counts, std::int64_t rows);

/// The value that a backed symbol gets from the inputs: "x.size(1)" is a size of tensor x, any
/// other source is the 0-d i64 input of that name. Errors: BadInput.
[[nodiscard]] Result<std::int64_t> bound_value(const SymbolBinding& binding, const Inputs& inputs);
/// The input of an Input node. Errors: BadInput where it is missing, or has another dtype or number
/// of dims.
[[nodiscard]] Result<Array> bound_input(const Node& node, const Inputs& inputs);

}  // namespace lockstep::worker
