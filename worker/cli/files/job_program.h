// Subcommands that are jobs: the command becomes a program that stands beside it, because it starts
// faster without what jobs need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::worker::cli {

/// Does not come back, unless the program cannot be started: the exit code then, after a sentence.
[[nodiscard]] int become_program(std::string_view program,
                                 const std::vector<std::string>& arguments);

}  // namespace lockstep::worker::cli
