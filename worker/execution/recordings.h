// Recordings (CUDA graphs) of the steps of a program between those that need the host or other
// ranks: one per segment and tuple of sizes, in memory that they share, of which one is done at a
// time. Used by the device machine.
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
/// those that are recorded with all ranks, so the ranks would have to agree on what each records.
struct Segment {
  std::size_t begin = 0, end = 0;  // steps
  /// Values that it reads from before, and those that are needed after it.
  std::vector<BufferId> in, out;
  std::vector<BufferId> all;
};

/// The longest there are; a single step is none. In order.
[[nodiscard]] std::vector<Segment> segments_of(const Program& program);

/// One thread. Recordings live as long as this, which goes before the device.
class Recordings {
 public:
  /// At most `limit` recordings. `program` outlives it.
  Recordings(const Program& program, std::shared_ptr<Device> device, std::size_t limit);
  ~Recordings();
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  struct Recording {
    DeviceRecording work{};
    std::map<BufferId, DeviceAddress> slots;  // where its values are
  };
  /// The segment that begins at this step; null: none does.
  [[nodiscard]] const Segment* segment(std::size_t step) const;
  /// The segment's recording at these sizes; made by `start`, which starts the segment's steps on
  /// values in the given slots, if there is none. Null: `limit` is reached, there is no memory, or
  /// a recording failed (none is tried after that); the steps are to be started one by one. Errors:
  /// the device's.
  using Start = std::function<Result<void>(const std::map<BufferId, DeviceAddress>& slots)>;
  [[nodiscard]] Result<const Recording*> at(const Segment& segment, const RunValues& values,
                                            const Start& start);
  [[nodiscard]] std::size_t made() const { return made_; }

 private:
  [[nodiscard]] Result<std::optional<DeviceAddress>> block(std::size_t bytes);

  const Program& program_;
  std::shared_ptr<Device> device_;
  std::size_t limit_, made_ = 0;
  std::vector<Segment> segments_;
  using Key = std::vector<std::int64_t>;  // the segment's first step, then all sizes in it
  std::map<Key, Recording> recordings_;
  std::map<std::size_t, std::unique_ptr<DeviceBlock>> blocks_;  // by size; kept
};

}  // namespace lockstep::worker
