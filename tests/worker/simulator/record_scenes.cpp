// Records of jobs that ended in one way or another, for the test of the page that is made of them.
// usage: record_scenes DIRECTORY
#include <filesystem>

#include "recorded_job.h"

using namespace lockstep::worker::simulator;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto scenario = parse_scenario(
      R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": [
    {"frame": "step", "inputs": [{"ranks": "0-3", "values": {"tokens": {"tensor": [4, 8]}}}]},
    {"frame": "step", "inputs": [{"ranks": "0-2", "values": {"tokens": {"tensor": [6, 8]}}},
                                 {"ranks": "3", "values": {"tokens": {"tensor": [8, 8]}}}]},
    {"frame": "step", "inputs": [{"ranks": "0-3", "values": {"tokens": {"tensor": [10, 8]}}}]},
    {"frame": "step", "inputs": [{"ranks": "0-2", "values": {"tokens": {"tensor": [5, 9]}}},
                                 {"ranks": "3", "values": {"tokens": {"tensor": [6, 9]}}}]}]})",
      "scenes");
  if (!scenario) return 2;
  std::filesystem::create_directories(folder + "/diverged");
  std::filesystem::create_directories(folder + "/lost");
  (void)record_job(*scenario, folder + "/diverged");
  // Alike on all ranks in the first call, then ragged, and even: all take one branch.
  Scenario wobbling = *scenario;
  wobbling.calls.resize(1);
  for (std::int64_t c = 0; c < 4; ++c) {
    ScenarioCall call = wobbling.calls.front();
    const ScenarioGroup group = call.groups.front();
    call.groups.clear();
    for (std::int32_t r = 0; r < 4; ++r) {
      call.groups.push_back(group);
      call.groups.back().ranks = lockstep::RankSet::of(lockstep::Rank{r});
      call.groups.back().values.at("tokens").sizes[0] = c == 3 ? 4 + 2 * r : 4 + 2 * (r + 4 * c);
    }
    wobbling.calls.push_back(call);
  }
  std::filesystem::create_directories(folder + "/wobbling");
  (void)record_job(wobbling, folder + "/wobbling");
  (void)record_job(*scenario, folder + "/lost", {.lost_rank = 1, .lost_call = 2});
  return 0;
}
