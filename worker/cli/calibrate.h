// lockstep dryrun --calibrate.
#pragma once

#include <string>

namespace lockstep::worker::cli {

/// Under mpirun: measures this host and stores the network NAME in `folder`; does not return. Else,
/// or where that cannot be: says how to start it, and gives the exit code.
int calibrate(const std::string& name, const std::string& folder);

}  // namespace lockstep::worker::cli
