// The histories of jobs in a coordinator's store, as a table and as one JSON document
// ("lockstep.history/1").
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lockstep/coordinator/store/history_run.h>
#include <lockstep/coordinator/store/profile_store.h>

namespace lockstep::worker::cli {

struct RecordedRun {
  coordinator::HistoryRun run;
  // Only if one job is asked for:
  std::vector<coordinator::HistoryCall> calls;
  std::vector<coordinator::HistoryNote> notes;
};

struct RecordedJobs {
  std::string job;  // the job that was asked for; empty: all jobs
  std::vector<RecordedRun> runs;
  std::vector<std::pair<coordinator::FrameKey, coordinator::Profile>> profile;  // profile of `job`
  coordinator::HistoryTime now;
};

/// Returns a table of runs; for one job, each run with its calls and what went wrong, and the job's
/// profile.
[[nodiscard]] std::string history_table(const RecordedJobs& recorded);
[[nodiscard]] std::string history_document(const RecordedJobs& recorded);

}  // namespace lockstep::worker::cli
