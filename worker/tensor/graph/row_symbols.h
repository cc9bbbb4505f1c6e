// Sizes that may be rounded up: rows of zeros appended to the inputs that have such rows do not
// change the original rows. Used for recordings, of which there is one per size.
#pragma once

#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// The symbols of graph.symbols that are the number of rows (dim 0) of some values and occur
/// nowhere else, where row i of a value comes from rows i of its operands alone. Excludes symbols
/// that are summed over, used for routing, or that appear in a collective, host sync, offset or
/// assert. Pure.
[[nodiscard]] std::vector<shapes::Symbol> row_symbols(const Graph& graph);

}  // namespace lockstep::worker
