// The results of `lockstep trace`: the sheets of all ranks (trace_sheet.h) and the ends of their
// processes as one document, in which equal items of several ranks appear once.
#pragma once

#include <optional>
#include <string>

#include <lockstep/worker/cli/trace_ranks.h>

namespace lockstep::worker::cli {

struct TraceReport {
  std::string json;  // lockstep.trace/1, one line
  std::string text;  // for people
  /// Why the command does not exit with 0, in one sentence; empty: it does.
  std::string complaint;
  int exit_code = 0;
  bool made_job = false;  // some rank made one; else there is nothing to report but the complaint
};

/// `graphs`: the text includes the graphs. Errors: Environment (a sheet cannot be read).
[[nodiscard]] Result<TraceReport> trace_report(const TraceRun& run, const RanksEnd& ended,
                                               bool graphs);

}  // namespace lockstep::worker::cli
