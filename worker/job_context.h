// What the frames of one job share. Owned by the job; internal to job.cpp and frame.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/call_driver.h>
#include <lockstep/worker/executable.h>
#include <lockstep/worker/log.h>
#include <lockstep/worker/record.h>
#include <lockstep/worker/settings.h>
#include <lockstep/worker/shared_build.h>

namespace lockstep::worker {

/// What one frame's calls came to.
struct FrameCounts {
  std::string frame;
  std::uint64_t calls = 0, reused = 0, compiled = 0, fallbacks = 0, errors = 0;
  std::uint64_t nodes_compiled = 0, nodes_interpreted = 0;  // run, summed over calls
  std::vector<shapes::Fingerprint> graphs;                  // that ran, in order of their first run
};

/// The longest that one compile unit may take; the toolchain ends the compiler then.
inline constexpr std::chrono::minutes kBuildLimit{2};

/// One thread. With coordination off, calls are agreed in a group of one, while data collectives
/// still go to all ranks: what happens without lockstep.
struct JobContext {
  Settings settings;
  DecisionConfig decision;
  Log log;
  collectives::Communicator* data = nullptr;  // all ranks
  CallDriver* driver = nullptr;               // the group that agrees
  collectives::Watch* watch = nullptr;
  BuildTools tools;              // what units are built with
  Recorder* recorder = nullptr;  // null: no record
  RoundKey key;                  // of the round under way
  RunTimes run;                  // of all frames

  SystemClock clock;
  void note(std::string_view event) {
    if (watch != nullptr) watch->seat().note(event, clock.now());
  }
  /// "Busy and alive": peers that wait for this rank give it that long from now.
  void busy_for(Duration time) {
    if (watch != nullptr) watch->seat().renew(clock.now() + time);
  }
  void phase(Phase phase) {
    if (watch != nullptr) watch->seat().phase(phase);
  }
};

}  // namespace lockstep::worker
