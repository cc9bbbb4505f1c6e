// Runs a scenario as a job would run it, with a recorder on every rank, and a program whose branch
// depends on a size: so that records hold guards, divergences and failures.
#pragma once

#include <functional>
#include <string>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

struct JobFaults {
  /// From this call on the rank makes no calls any more, and its peers give up.
  int lost_rank = -1;
  std::size_t lost_call = 0;
};

/// Writes the record of all ranks into `directory`. Calls that not all ranks of the scenario make
/// are left out. Returns each call's outcome on rank 0, as text.
std::vector<std::string> record_job(const Scenario& scenario, const std::string& directory,
                                    const JobFaults& faults = {});

}  // namespace lockstep::worker::simulator
