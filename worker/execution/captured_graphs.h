// CUDA graphs of the steps of a program between those that need the host or other ranks: captured
// once per segment and tuple of sizes, launched as one from then on. They share memory, and run one
// at a time. Used by the device backend.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/codegen/program.h>
#include <lockstep/worker/device/device_pool.h>
#include <lockstep/worker/run/run_values.h>

namespace lockstep::worker {

/// Kernels and products one after the other. Collectives are in none: NCCL registers the memory of
/// those that are captured with all ranks, so the ranks would have to agree on what each captures.
struct Segment {
  std::size_t begin = 0, end = 0;  // steps
  /// Values that it reads from before, and those that are needed after it.
  std::vector<BufferId> in, out;
  std::vector<BufferId> all;
};

/// The longest there are; a single step is none. In order.
[[nodiscard]] std::vector<Segment> segments_of(const Program& program);

/// One thread. The graphs live as long as this, which goes before the device.
class CapturedGraphs {
 public:
  /// At most `limit` graphs. `program` outlives it.
  CapturedGraphs(const Program& program, std::shared_ptr<Device> device, std::size_t limit);
  ~CapturedGraphs();
  CapturedGraphs(const CapturedGraphs&) = delete;
  CapturedGraphs& operator=(const CapturedGraphs&) = delete;

  struct CapturedGraph {
    DeviceRecording work{};
    std::map<BufferId, DeviceAddress> slots;  // where its values are
  };
  /// The segment that begins at this step; null: none does.
  [[nodiscard]] const Segment* segment(std::size_t step) const;
  /// The segment's graph at these sizes; made by `start`, which starts the segment's steps on
  /// values in the given slots, if there is none. Null: `limit` is reached, there is no memory, or
  /// a capture failed (none is tried after that); the steps are to be started one by one. Errors:
  /// the device's.
  using Start = std::function<Result<void>(const std::map<BufferId, DeviceAddress>& slots)>;
  [[nodiscard]] Result<const CapturedGraph*> at(const Segment& segment, const RunValues& values,
                                                const Start& start);
  [[nodiscard]] std::size_t made() const { return made_; }

 private:
  [[nodiscard]] Result<std::optional<DeviceAddress>> block(std::size_t bytes);

  const Program& program_;
  std::shared_ptr<Device> device_;
  std::size_t limit_, made_ = 0;
  std::vector<Segment> segments_;
  using Key = std::vector<std::int64_t>;  // the segment's first step, then all sizes in it
  std::map<Key, CapturedGraph> graphs_;
  std::map<std::size_t, std::unique_ptr<DeviceBlock>> blocks_;  // by size; kept
};

}  // namespace lockstep::worker
