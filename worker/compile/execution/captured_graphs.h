// CUDA graphs of the segments of a program: the steps between those that need the host or other
// ranks. A graph is captured once per segment and tuple of sizes, then launched as a whole. Graphs
// share memory, and run one at a time. Used by the device backend.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/device/device_pool.h>
#include <lockstep/worker/compile/run/run_values.h>

namespace lockstep::worker {

/// Consecutive kernels and products. No segment holds a collective: NCCL registers the memory of
/// captured collectives with all ranks, so ranks would have to agree on what each captures.
struct Segment {
  std::size_t begin = 0, end = 0;  // steps
  /// `in`: values that the segment reads and that are made before it. `out`: values that are made
  /// in the segment and needed later.
  std::vector<BufferId> in, out;
  std::vector<BufferId> all;
};

/// Returns the longest possible segments of two steps or more, in order.
[[nodiscard]] std::vector<Segment> segments_of(const Program& program);

/// Single-threaded. The graphs live as long as this object, which is destroyed before the device.
class CapturedGraphs {
 public:
  /// Makes at most `limit` graphs. `program` outlives it.
  CapturedGraphs(const Program& program, std::shared_ptr<Device> device, std::size_t limit);
  ~CapturedGraphs();
  CapturedGraphs(const CapturedGraphs&) = delete;
  CapturedGraphs& operator=(const CapturedGraphs&) = delete;

  struct CapturedGraph {
    DeviceRecording work{};
    std::map<BufferId, DeviceAddress> slots;  // where its values are
  };
  /// Returns the segment that begins at this step; null if none does.
  [[nodiscard]] const Segment* segment(std::size_t step) const;
  /// Returns the segment's graph at these sizes. If there is none, captures it from `start`, which
  /// starts the segment's steps on values in the given slots. Null: the steps must be started one
  /// by one, because `limit` is reached, there is no memory, or a capture failed (then no other is
  /// tried). Errors: the device's.
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
