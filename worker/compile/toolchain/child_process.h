// Runs one child process to its end or to a time limit, without a shell. The child has a process
// group of its own, so an interrupt from the terminal reaches only this process. At the limit the
// child is first asked to end (SIGTERM), so that it can remove its temporary files.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

struct ChildRun {
  std::vector<std::string> arguments;  // the program first; looked up in PATH
  int input = -1;                      // becomes descriptor 0; -1: /dev/null
  int errors = -1;                     // becomes descriptors 1 and 2; -1: /dev/null
  int output = -1;                     // becomes descriptor 3; -1: closed
  std::chrono::milliseconds limit{60000};
};

struct ChildEnd {
  bool timed_out = false;
  int signal = 0;  // that ended the child; 0: it exited
  int status = 0;
  std::chrono::microseconds cpu{0};  // time of the child and its children
};

/// Waits for the end. Errors: Environment (the child cannot be started, or cannot be waited for).
[[nodiscard]] Result<ChildEnd> run_child(const ChildRun& run);

}  // namespace lockstep::worker
