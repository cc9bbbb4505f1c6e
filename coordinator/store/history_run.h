// Runs of jobs as the history stores them. Plain values; values that are only shown are texts. The
// history collector makes them, the history store keeps them, and `lockstep history` shows them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/clock.h>

namespace lockstep::coordinator {

/// Time in UTC.
using HistoryTime = std::chrono::sys_time<std::chrono::microseconds>;

/// Ranks with the same graph and outcome in one call.
struct HistoryVersion {
  std::string ranks, graph, outcome, code, decisions;
  bool operator==(const HistoryVersion&) const = default;
};

struct HistoryReason {
  std::string ranks, text;
  bool operator==(const HistoryReason&) const = default;
};

/// A call that compiled, fell back or failed (ReportedCall).
struct HistoryCall {
  std::uint64_t serial = 0;  // within its run, from 0
  HistoryTime at;            // when the first rank reported it
  std::string frame, group;
  std::uint64_t epoch = 0, call = 0;
  std::string outcome, code;  // code: empty unless the outcome is an error
  std::int32_t entry = -1;
  std::uint32_t attempts = 1;
  std::string ranks;  // ranks that have reported it
  Duration exchange{0}, trace{0}, compile{0}, waited{0};
  std::int32_t slowest = 0;  // the rank that compiled longest
  std::vector<HistoryVersion> versions;
  std::vector<HistoryReason> reasons;
  bool operator==(const HistoryCall&) const = default;
};

/// A finding to act on, or the verdict that ended the run.
struct HistoryNote {
  HistoryTime at;
  std::string kind, message;
  bool operator==(const HistoryNote&) const = default;
};

struct HistoryRun {
  std::string coordinator;  // random id; with `watched` it identifies the run
  std::string job;
  int watched = 0;  // number of the run among all runs of this coordinator, from 1
  int size = 1;
  std::string build, configuration;
  HistoryTime began;
  HistoryTime seen;                  // when its coordinator last looked
  std::optional<HistoryTime> ended;  // when the last rank was gone
  std::string word, sentence;        // the run's latest headline (headline.h)
  // Set only when read from the store:
  std::int64_t id = 0;
  int number = 0;  // number of the run among all runs of the job, from 1
  std::uint64_t compiled = 0, fallbacks = 0, errors = 0;
  bool operator==(const HistoryRun&) const = default;
};

/// The news of one run.
struct RunNews {
  HistoryRun run;
  std::vector<HistoryCall> calls;  // calls that are new, or that more ranks have reported since
  std::vector<HistoryNote> notes;  // new notes
};

}  // namespace lockstep::coordinator
