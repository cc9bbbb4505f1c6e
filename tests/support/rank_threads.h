// Runs a graph with the reference interpreter on several ranks, one thread each, with collectives
// carried out in memory. For tests; moves no bytes between processes.
#pragma once

#include <vector>

#include <lockstep/worker/compile/interpreter/interpreter.h>

namespace lockstep::worker::test {

/// Outputs per rank; `inputs` and `graphs` have one element per rank. "job.rank" is added to the
/// inputs. If a rank fails, fails the current test and returns empty outputs.
[[nodiscard]] std::vector<std::vector<Array>> run_on_ranks(const std::vector<Graph>& graphs,
                                                           std::vector<Inputs> inputs);

}  // namespace lockstep::worker::test
