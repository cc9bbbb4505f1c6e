// The processes behind `lockstep trace`: started, listened to, passed signals on to, and ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::cli {

/// What to trace, and as what.
struct TraceRun {
  int size = 1;                      // ranks of the job
  std::optional<int> alone;          // one process as this rank, which the others mirror; else all
  std::uint64_t calls = 8;           // of each rank, at most
  bool saves = false;                // each rank leaves its frames' programs in the folder
  std::vector<std::string> command;  // the program as a path, and its arguments
  std::string folder;                // private and empty: for the sheets, and where the ranks meet
  Duration deadline{0};
  std::string directory{};                         // where the program starts; empty: here
  std::map<std::string, std::string> variables{};  // of the environment, besides
  std::optional<Duration> limit{};                 // what still runs then is killed
};

/// How the process of one rank ended.
struct RankEnd {
  int rank = 0;
  int exit_code = 0;
  int signal = 0;      // that ended it; 0: it exited
  bool by_us = false;  // that signal was this command's
  [[nodiscard]] bool well() const { return exit_code == 0 && signal == 0; }
};

struct RanksEnd {
  std::vector<RankEnd> ranks;
  int told = 0;  // the signal by which this command was told to end; 0: none
};

/// Runs them to their end, each in a process group of its own, with /dev/null as input; what they
/// print goes to stderr, by whole lines, after the rank's name where there are several. They get
/// SIGINT, SIGTERM and SIGHUP of this command and ten seconds to end; a second one, or the end of
/// this command in whatever way, kills them. Where a rank has ended badly the others get as long as
/// a job's start may take. One at a time in a process, which has no other children.
/// Errors: Environment (no process or pipe to be had).
[[nodiscard]] Result<RanksEnd> run_traced_ranks(const TraceRun& run);

}  // namespace lockstep::worker::cli
