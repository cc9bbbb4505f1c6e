// Text forms of a saved program for people and scripts: `lockstep show`.
#pragma once

#include <string>

#include <lockstep/worker/files/saved/saved_program.h>

namespace lockstep::worker {

/// Returns name, ranks and options, then for each entry its inputs, symbols with their sources and
/// lower bounds, guards with their lines, and nodes. Pure.
[[nodiscard]] std::string program_text(const SavedProgram& program);
/// Returns the program as one JSON document, "lockstep.program/1", in one line.
[[nodiscard]] std::string program_json(const SavedProgram& program);
/// Returns the graphs in graphviz's language: a cluster per entry, with a cluster per body in it.
[[nodiscard]] std::string program_dot(const SavedProgram& program);

}  // namespace lockstep::worker
