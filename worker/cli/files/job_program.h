// Subcommands that are jobs: the command becomes another program in its folder, because the command
// starts faster without the libraries of jobs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::worker::cli {

/// Does not return, unless the program cannot be started: then prints a sentence and returns the
/// exit code.
[[nodiscard]] int become_program(std::string_view program,
                                 const std::vector<std::string>& arguments);

}  // namespace lockstep::worker::cli
