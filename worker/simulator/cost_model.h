// What a job's calls take, as data: the network, when ranks come to a call, compiling, and the step
// itself. The section "cost" of a scenario, or --network with the defaults here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/draw.h>
#include <lockstep/worker/simulator/network_model.h>

namespace lockstep::worker::simulator {

/// Tracing and compiling: the same on every rank.
struct CompileModel {
  std::int64_t constant_ns = 1'000'000'000;
  std::int64_t per_source_ns = 0, per_symbol_ns = 0;  // of the decision, which stands for the graph
  bool operator==(const CompileModel&) const = default;
};

/// A collective of the step, over all ranks.
struct DataCollective {
  enum class Kind : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll };
  Kind kind = Kind::AllReduce;
  /// That a rank brings; AllGather: of the result, on every rank.
  std::int64_t bytes = 0;
  bool operator==(const DataCollective&) const = default;
};

struct StepModel {
  std::int64_t constant_ns = 0;
  std::int64_t per_element_ps = 0;  // picoseconds per element of the rank's tensors
  std::vector<DataCollective> collectives;
  bool operator==(const StepModel&) const = default;
};

struct FrameCost {
  CompileModel compile;
  StepModel step;
  bool operator==(const FrameCost&) const = default;
};

/// Immutable once read.
struct CostModel {
  NetworkModel network;
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
