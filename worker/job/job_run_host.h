// The job as the host of one run of a frame (run/run_host.h): groups, devices, and status rounds
// over the group that agrees on the frame's calls. Created by the frame for each run.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {

/// Each status round has a key of its own. A step over many elements has a lease, as a compile has.
/// The lease's length is the number of elements times an upper bound of the time for each.
/// Single-threaded.
class JobRunHost final : public RunHost {
 public:
  /// `over`: the ranks of the run's collectives. `bound` is called once the inputs have been bound:
  /// from then on other holders may release them.
  JobRunHost(JobContext& job, GroupContext& agreed, GroupContext& over, std::function<void()> bound)
      : job_(job), agreed_(agreed), over_(over), bound_(std::move(bound)) {}

  Result<void> settle(const std::optional<LocalFailure>& mine) override;
  ~JobRunHost() override { announce_step_size(0); }
  JobRunHost(const JobRunHost&) = delete;
  JobRunHost& operator=(const JobRunHost&) = delete;

  void poke() override { job_.poke(); }
  void announce_step_size(std::int64_t elements) override;
  void bound() override { bound_(); }
  collectives::Communicator* group(std::string_view name) override;
  [[nodiscard]] Rank rank_at(std::string_view group, Rank place) const override;
  collectives::DeviceData* device_data(std::string_view name) override;
  Threads& threads() override { return *job_.threads; }
  collectives::Watch* watch() override { return job_.watch; }
  /// True if all ranks of the run agree on its calls; false if calls are agreed in a group of one.
  [[nodiscard]] bool reaches_all() const override;

  /// Ends the job by the watchdog, with this rank's reason, if this rank failed alone (for example,
  /// had no memory for the rest of the graph). Otherwise its peers would wait in the next
  /// collective.
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
