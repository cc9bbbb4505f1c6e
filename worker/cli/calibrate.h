// lockstep dryrun --calibrate.
#pragma once

#include <string>

namespace lockstep::worker::cli {

/// Under mpirun: becomes the program that measures this host and stores the network `name` in
/// `folder`; does not return. Without mpirun, or if that fails: prints a sentence that says what to
/// do, and returns the exit code.
int calibrate(const std::string& name, const std::string& folder);

}  // namespace lockstep::worker::cli
