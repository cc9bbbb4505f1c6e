// What a job's calls take, as data: the networks, when ranks come to a call, compiling, and the
// step itself. The section "cost" of a scenario, or --network with the defaults here.
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

/// Tracing and compiling: the same on every rank.
struct CompileModel {
  std::int64_t constant_ns = 1'000'000'000;
  std::int64_t per_source_ns = 0, per_symbol_ns = 0;  // of the decision, which stands for the graph
  bool operator==(const CompileModel&) const = default;
};

struct StepModel {
  std::int64_t constant_ns = 0;
  std::int64_t per_element_ps = 0;  // picoseconds per element of the rank's tensors
  std::vector<KernelWork> kernels;  // none where the model has no device
  std::optional<Amount> memory;  // bytes of the device that a step holds at most; nullopt: not said
  std::vector<DataCollective> collectives;

  /// Whether the elements of a rank's tensors matter.
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
  NetworkModel network;                     // of the agreement, and of the step's collectives
  std::optional<DataNetwork> data_network;  // of these in its place
  std::optional<DeviceModel> device;        // that the steps run on
  std::optional<Draw> skew;  // how much later a rank comes to each call; nullopt: not at all
  std::int64_t skew_unit_ns = 1;
  std::uint64_t seed = 0;  // of the skew
  FrameCost usual;         // of frames that are not in `frames`
  std::map<std::string, FrameCost> frames;
  std::int64_t deadline_ns = 60'000'000'000;  // that ranks wait for absent ones

  [[nodiscard]] const FrameCost& of(const std::string& frame) const {
    const auto found = frames.find(frame);
    return found == frames.end() ? usual : found->second;
  }
  [[nodiscard]] std::int64_t compile_ns(const std::string& frame, std::size_t sources,
                                        std::size_t symbols) const;
  /// What a rank with so many elements does in a step by itself. At most kLongest.
  [[nodiscard]] std::int64_t own_step_ns(const StepModel& step, std::int64_t elements) const;
  /// The step's collectives in a world of so many ranks. On a device each is launched as a kernel
  /// is, but not where the data goes through the host. At most kLongest.
  [[nodiscard]] std::int64_t data_ns(const StepModel& step, int size) const;
  /// How much later the rank comes to this call. At most kLongest.
  [[nodiscard]] std::int64_t skew_ns(std::uint64_t call, std::int32_t rank) const;
  bool operator==(const CostModel&) const = default;
};

/// The fixed rules by which Open MPI 4 chooses, roughly: by doubling where messages are short, by a
/// ring (of ranks, or of pairs) where they are long. `network` is one of in_world(size); hosts are
/// taken to be one network of its slowest link. At most kLongest.
[[nodiscard]] std::int64_t collective_ns(const DataCollective& collective,
                                         const NetworkModel& network, int size);

}  // namespace lockstep::worker::simulator
