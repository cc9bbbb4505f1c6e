// What is kept of the runs of jobs after they are over: plain values, texts for what is only shown.
// Made by the history collector, kept by the history store, shown by `lockstep history`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/clock.h>

namespace lockstep::coordinator {

/// UTC.
using PastTime = std::chrono::sys_time<std::chrono::microseconds>;

/// Ranks that came to the same in one call.
struct PastVersion {
  std::string ranks, graph, outcome, code, decisions;
  bool operator==(const PastVersion&) const = default;
};

struct PastReason {
  std::string ranks, text;
  bool operator==(const PastReason&) const = default;
};

/// A call that compiled, fell back or failed (ToldCall).
struct PastCall {
  std::uint64_t serial = 0;  // within its run, from 0
  PastTime at;               // when the first rank told of it
  std::string frame, group;
  std::uint64_t epoch = 0, call = 0;
  std::string outcome, code;  // code: of an error, else empty
  std::int32_t entry = -1;
  std::uint32_t attempts = 1;
  std::string ranks;  // that have told of it
  Duration exchange{0}, trace{0}, compile{0}, waited{0};
  std::int32_t slowest = 0;  // the rank that compiled longest
  std::vector<PastVersion> versions;
  std::vector<PastReason> reasons;
  bool operator==(const PastCall&) const = default;
};

/// A finding to act on, or the verdict that ended the run.
struct PastNote {
  PastTime at;
  std::string kind, message;
  bool operator==(const PastNote&) const = default;
};

struct PastRun {
  std::string coordinator;  // drawn at random: with `watched` it tells runs apart
  std::string job;
  int watched = 0;  // counts the runs that its coordinator has watched, of all jobs, from 1
  int size = 1;
  std::string build, configuration;
  PastTime began;
  PastTime seen;                  // when its coordinator last looked
  std::optional<PastTime> ended;  // when the last rank was gone
  std::string word, sentence;     // how it stands, or stood last (headline.h)
  // As read from the store:
  std::int64_t id = 0;
  int number = 0;  // among all runs of the job, from 1
  std::uint64_t compiled = 0, fallbacks = 0, errors = 0;
  bool operator==(const PastRun&) const = default;
};

/// What is new of one run.
struct RunNews {
  PastRun run;
  std::vector<PastCall> calls;  // new, or told by more ranks since
  std::vector<PastNote> notes;  // new
};

}  // namespace lockstep::coordinator
