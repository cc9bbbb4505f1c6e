// Difference between a second trace of a function and its entry, in words: the check of captured
// variables reports it. Pure; called on the way to an error.
#pragma once

#include <string>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// The first difference, with the user's line: "train.cpp:41 recorded %3: f64[] = full(2) then, and
/// %3: f64[] = full(3) now". Requires graphs with different fingerprints.
[[nodiscard]] std::string capture_text(const Graph& then, const Graph& now);

}  // namespace lockstep::worker
