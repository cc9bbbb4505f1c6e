// The results of `lockstep trace`, as one document: the sheets of all ranks (trace_sheet.h), and
// how their processes ended. Equal items of several ranks appear once.
#pragma once

#include <optional>
#include <string>

#include <lockstep/worker/cli/trace_ranks.h>

namespace lockstep::worker::cli {

struct TraceReport {
  std::string json;  // lockstep.trace/1, one line
  std::string text;  // for people
  /// Why the exit code is not 0, in one sentence; empty: it is 0.
  std::string complaint;
  int exit_code = 0;
  bool made_job = false;  // some rank made a job; else there is nothing to report but `complaint`
};

/// `graphs`: the text includes the graphs. Errors: Environment (a sheet cannot be read).
[[nodiscard]] Result<TraceReport> trace_report(const TraceRun& run, const RanksEnd& ended,
                                               bool graphs);

}  // namespace lockstep::worker::cli
