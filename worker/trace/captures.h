// What a traced function does otherwise than when an entry was made of it, in words: the check of
// captured variables names it. Pure; called on the way to an error.
#pragma once

#include <string>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// The first thing in which they differ, with the user's line: "train.cpp:41 recorded %3: f64[] =
/// full(2) then, and %3: f64[] = full(3) now". Requires graphs of other fingerprints.
[[nodiscard]] std::string capture_text(const Graph& then, const Graph& now);

}  // namespace lockstep::worker
