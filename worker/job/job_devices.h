// The devices of a job: this rank's device, and the communicators between the devices of its
// groups. Used by job.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/collectives/device_data.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {

/// Single-threaded. Destroyed after the frames and before the world.
class JobDevices {
 public:
  /// The context must outlive this object.
  explicit JobDevices(JobContext& context) : context_(context) {}

  /// Collective over all ranks, once. The ranks of a host take its devices in turn, in rank order.
  /// Sets context.device. Errors, joint: Environment, with what each rank lacks.
  [[nodiscard]] Result<void> open(CallDriver& everyone);
  /// Collective over the group: connects it by NCCL, if all of its ranks have NCCL and a GPU of
  /// their own. Else collectives go over the host, and the group's lowest rank logs why. Errors:
  /// the driver's.
  [[nodiscard]] Result<void> connect(GroupContext& group, CallDriver& driver);
  /// Collective: closes the communicators between devices.
  void close();
  /// For a job that has failed: ends operations between devices without waiting for peers.
  void abort();

 private:
  /// Why the group cannot use NCCL, the same on all of its ranks; empty: it can.
  [[nodiscard]] Result<std::string> obstacle(const GroupContext& group, CallDriver& driver);
  [[nodiscard]] Result<std::string> join(GroupContext& group, CallDriver& driver);

  JobContext& context_;
  std::vector<RankValue> units_;  // physical devices, with the ranks that use them
  std::vector<std::unique_ptr<collectives::DeviceData>> data_;
};

}  // namespace lockstep::worker
