// The job as the host of one run of a frame (run/run_host.h): groups, devices, and status rounds
// over the group that agrees on the frame's calls. Created by the frame for each run.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/worker/job_context.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// Each status round has a key of its own. A step over many elements
/// has a lease, as a compile has: so much per element that none takes longer. One thread.
class JobRunHost final : public RunHost {
 public:
  /// `over` carries the run's collectives. `bound` is called once the inputs have been bound: from
  /// then on other holders may release them.
  JobRunHost(JobContext& job, GroupContext& agreed, GroupContext& over, std::function<void()> bound)
      : job_(job), agreed_(agreed), over_(over), bound_(std::move(bound)) {}

  Result<void> settle(const std::optional<LocalFailure>& mine) override;
  ~JobRunHost() override { works_on(0); }
  JobRunHost(const JobRunHost&) = delete;
  JobRunHost& operator=(const JobRunHost&) = delete;

  void poke() override { job_.poke(); }
  void works_on(std::int64_t elements) override;
  void bound() override { bound_(); }
  collectives::Communicator* group(std::string_view name) override;
  [[nodiscard]] Rank rank_at(std::string_view group, Rank place) const override;
  collectives::DeviceData* device_data(std::string_view name) override;
  collectives::Watch* watch() override { return job_.watch; }
  /// Not where calls are agreed in a group of one.
  [[nodiscard]] bool reaches_all() const override;

  /// A rank that fails alone (no memory for its part in the rest of the graph) leaves its peers to
  /// wait in the next collective, so the watchdog ends the job with this rank's reason.
  void end_if_alone(const Result<std::vector<Array>>& outputs) const;

 private:
  JobContext& job_;
  GroupContext& agreed_;
  GroupContext& over_;
  std::function<void()> bound_;
  std::uint32_t attempt_ = 0;
  bool joint_error_ = false;
  bool leased_ = false;
};

}  // namespace lockstep::worker
