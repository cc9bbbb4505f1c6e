// Trains a workload: one frame from parameters, the state of Adam and a batch to those after the
// step, and what each step took.
#pragma once

#include <vector>

#include "workload.h"

namespace lockstep::suite {

struct Figures {
  std::vector<double> losses;
  std::vector<double> wall_s;  // of each step, the slowest rank's
  std::vector<double> cpu_s;   // of each step, summed over the ranks; without compiler processes
  std::vector<int> compiled;   // entries that each step compiled
  int fallbacks = 0;           // steps that were interpreted, for want of an entry
  double peak_bytes = 0;       // resident memory of the largest rank, in the steps after `warm`
};

/// Collective. The same result on all ranks, except for losses' rounding.
[[nodiscard]] Result<Figures> train(worker::Job& job, const Workload& workload, int steps,
                                    int warm);

}  // namespace lockstep::suite
