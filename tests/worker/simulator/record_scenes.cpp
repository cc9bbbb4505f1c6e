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
  (void)record_job(*scenario, folder + "/lost", {.lost_rank = 1, .lost_call = 2});
  return 0;
}
