// A saved program as people and scripts read it: `lockstep show`.
#pragma once

#include <string>

#include <lockstep/worker/saved/saved_program.h>

namespace lockstep::worker {

/// Name, ranks and options, then of each entry its inputs, symbols with their sources and lower
/// bounds, guards with their lines, and the nodes. Pure.
[[nodiscard]] std::string program_text(const SavedProgram& program);
/// The same as one JSON document, "lockstep.program/1", in one line.
[[nodiscard]] std::string program_json(const SavedProgram& program);
/// The graphs in the language of graphviz: a cluster for each entry, and in it one for each body.
[[nodiscard]] std::string program_dot(const SavedProgram& program);

}  // namespace lockstep::worker
