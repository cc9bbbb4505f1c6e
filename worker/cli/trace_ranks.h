// The processes behind `lockstep trace`: starts them, reads their output, forwards signals to them,
// and ends them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::cli {

/// The program to trace, and the ranks to trace it as.
struct TraceRun {
  int size = 1;              // ranks of the job
  std::optional<int> alone;  // the only rank with a process, mirrored by its peers; nullopt: all
  std::uint64_t calls = 8;   // most calls of each rank
  bool saves = false;        // each rank leaves its frames' programs in the folder
  std::vector<std::string> command;  // the program as a path, and its arguments
  std::string folder;                // a private, empty folder for the sheets and the rendezvous
  Duration deadline{0};
  std::string directory{};                         // where the program starts; empty: here
  std::map<std::string, std::string> variables{};  // additions to the environment
  std::optional<Duration> limit{};                 // time after which the ranks are killed
};

/// How the process of one rank ended.
struct RankEnd {
  int rank = 0;
  int exit_code = 0;
  int signal = 0;      // the signal that ended the process; 0: it exited
  bool by_us = false;  // this command sent that signal
  [[nodiscard]] bool well() const { return exit_code == 0 && signal == 0; }
};

struct RanksEnd {
  std::vector<RankEnd> ranks;
  int told = 0;  // the signal that asked this command to end; 0: none
};

/// Runs the ranks to their end, each in a process group of its own, with /dev/null as input. Their
/// output goes to stderr, by whole lines, after the rank's name if there are several ranks. SIGINT,
/// SIGTERM and SIGHUP of this command are passed on to the ranks, which then have ten seconds to
/// end. A second signal, or the end of this command, kills them. Once a rank has ended badly, the
/// others have only the time that a job's start may take. Only one call at a time in a process,
/// which must have no other children. Errors: Environment (no process or pipe available).
[[nodiscard]] Result<RanksEnd> run_traced_ranks(const TraceRun& run);

}  // namespace lockstep::worker::cli
