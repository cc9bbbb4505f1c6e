// What the frames of one job share. Owned by the job; internal to job.cpp and frame.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/mpi.h>
#include <lockstep/coordinator/artifact_store.h>
#include <lockstep/worker/call_driver.h>
#include <lockstep/worker/executable.h>
#include <lockstep/worker/log.h>
#include <lockstep/worker/record.h>
#include <lockstep/worker/settings.h>
#include <lockstep/worker/toolchain.h>

namespace lockstep::worker {

/// Where the time of runs went, and what ran. Summed over calls.
struct FrameCounts {
  std::string frame;
  int index = 0;
  std::uint64_t calls = 0, reused = 0, compiled = 0, fallbacks = 0, errors = 0;
  std::uint64_t nodes_compiled = 0, nodes_interpreted = 0;  // of the programs that ran, per entry
  shapes::Fingerprint ran;  // covers the graphs that ran, in order of their first run
};

/// One thread. With coordination off, calls are agreed in a group of one, while data collectives
/// still go to all ranks: what happens without lockstep.
struct JobContext {
  Settings settings;
  DecisionConfig decision;
  Log log;
  collectives::Communicator* data = nullptr;  // all ranks
  CallDriver* driver = nullptr;               // the group that agrees
  collectives::Watch* watch = nullptr;
  Toolchain* toolchain = nullptr;
  coordinator::ArtifactStore* artifacts = nullptr;
  Recorder* recorder = nullptr;  // null: no record
  int host_rank = 0, host_size = 1;  // this rank among those of its host: who builds which unit
  RoundKey key;                      // of the round under way
  RunTimes run;

  SystemClock clock;
  void note(std::string_view event) {
    if (watch != nullptr) watch->seat().note(event, clock.now());
  }
  void phase(Phase phase) {
    if (watch != nullptr) watch->seat().phase(phase);
  }
};

}  // namespace lockstep::worker
