// lockstep dryrun --calibrate.
#pragma once

#include <string>

namespace lockstep::worker::cli {

/// Under mpirun: measures this host and stores the network `name` in `folder`; does not return.
/// Otherwise, or if that fails: prints how to start it, and returns the exit code.
int calibrate(const std::string& name, const std::string& folder);

}  // namespace lockstep::worker::cli
