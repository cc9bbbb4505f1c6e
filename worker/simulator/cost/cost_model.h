// The costs of a job's calls, as data: the networks, the skew of ranks, compiling, and the step
// itself. Read from the section "cost" of a scenario, or given by --network with the defaults here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/cost/data_network.h>
#include <lockstep/worker/simulator/cost/device_model.h>
#include <lockstep/worker/simulator/cost/network_model.h>
#include <lockstep/worker/simulator/draw/draw.h>

namespace lockstep::worker::simulator {

/// Time of tracing and compiling, equal on every rank.
struct CompileModel {
  std::int64_t constant_ns = 1'000'000'000;
  std::int64_t per_source_ns = 0, per_symbol_ns = 0;  // counted in the decision, not the graph
  bool operator==(const CompileModel&) const = default;
};

struct StepModel {
  std::int64_t constant_ns = 0;
  std::int64_t per_element_ps = 0;  // picoseconds per element of the rank's tensors
  std::vector<KernelWork> kernels;  // empty without a device
  std::optional<Amount> memory;     // most bytes that a step holds; nullopt: unknown
  std::vector<DataCollective> collectives;

  /// True if the cost depends on the elements of a rank's tensors.
  [[nodiscard]] bool counts_elements() const;
  bool operator==(const StepModel&) const = default;
};

struct FrameCost {
  CompileModel compile;
  StepModel step;
  bool operator==(const FrameCost&) const = default;
};

/// Immutable once read.
struct CostModel {
  NetworkModel network;                     // for the agreement, and the step's collectives
  std::optional<DataNetwork> data_network;  // network of the step's collectives, if given
  std::optional<DeviceModel> device;        // device that runs the steps
  std::optional<Draw> skew;                 // a rank's delay before each call; nullopt: none
  std::int64_t skew_unit_ns = 1;
  std::uint64_t seed = 0;  // seed of the skew's draws
  FrameCost usual;         // cost of frames that are not in `frames`
  std::map<std::string, FrameCost> frames;
  std::int64_t deadline_ns = 60'000'000'000;  // time that ranks wait for absent ones

  [[nodiscard]] const FrameCost& of(const std::string& frame) const {
    const auto found = frames.find(frame);
    return found == frames.end() ? usual : found->second;
  }
  [[nodiscard]] std::int64_t compile_ns(const std::string& frame, std::size_t sources,
                                        std::size_t symbols) const;
  /// Returns the time of a rank's own work in a step with this number of elements. At most
  /// kLongest.
  [[nodiscard]] std::int64_t own_step_ns(const StepModel& step, std::int64_t elements) const;
  /// Returns the time of the step's collectives in a world of `size` ranks. On a device each costs
  /// a launch, unless the data goes through the host. At most kLongest.
  [[nodiscard]] std::int64_t data_ns(const StepModel& step, int size) const;
  /// Returns the rank's delay before this call. At most kLongest.
  [[nodiscard]] std::int64_t skew_ns(std::uint64_t call, std::int32_t rank) const;
  bool operator==(const CostModel&) const = default;
};

/// Returns the time of one collective. Follows the fixed rules of Open MPI 4, roughly: doubling for
/// short messages; a ring, or exchanges pair by pair, for long ones. `network` is a result of
/// in_world(size). Several hosts count as one network with their slowest link. At most kLongest.
[[nodiscard]] std::int64_t collective_ns(const DataCollective& collective,
                                         const NetworkModel& network, int size);

}  // namespace lockstep::worker::simulator
