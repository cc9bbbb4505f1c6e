// Sizes that may be rounded up: rows of zeros appended to the inputs that have such rows change
// nothing in the rows that were there. Used for recordings, of which there is one per size.
#pragma once

#include <vector>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// Those of graph.symbols that are the number of rows (dim 0) of some values and occur nowhere
/// else, where row i of a value comes from rows i of its operands alone. A symbol that is summed
/// over, that data is routed by, or that a collective, a host sync, an offset or an assert knows is
/// none. Pure.
[[nodiscard]] std::vector<shapes::Symbol> row_symbols(const Graph& graph);

}  // namespace lockstep::worker
