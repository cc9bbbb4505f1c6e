// Subcommands that are jobs: `lockstep` becomes another program in the same folder, because
// `lockstep` starts faster without the libraries of jobs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::worker::cli {

/// Runs `program` in place of this one. Returns only if `program` cannot be started: then prints a
/// sentence and returns the exit code.
[[nodiscard]] int become_program(std::string_view program,
                                 const std::vector<std::string>& arguments);

}  // namespace lockstep::worker::cli
