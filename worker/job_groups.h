// The groups of one job as one rank has them: all ranks, this one alone, and those that the program
// declares. Used by job.cpp.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <lockstep/worker/job_context.h>
#include <lockstep/worker/process/world.h>

namespace lockstep::worker {

/// Owns what the job context's groups talk through. One thread; goes before the world.
class JobGroups {
 public:
  /// Both outlive it.
  JobGroups(const World& world, JobContext& context) : world_(world), context_(context) {}

  /// Fills in context.everyone and context.alone.
  [[nodiscard]] Result<void> open();
  /// Job::group.
  [[nodiscard]] Result<Group> declare(std::string name, const RankSet& members);
  /// From here on the observer hears of the calls of all groups. It outlives this.
  void observe(CallObserver* observer);
  /// Before the first call that this rank decides alone.
  void record_alone();
  /// All ranks, whatever the mode.
  [[nodiscard]] CallDriver& everyone() { return *everyone_.driver; }
  /// Over all groups.
  [[nodiscard]] CallTimes times() const;

 private:
  struct Line {
    std::unique_ptr<collectives::Communicator> own;  // null: the world's
    std::unique_ptr<CallDriver> driver;
  };
  [[nodiscard]] Result<std::vector<RankSet>> compare(const Result<Group>& mine);
  [[nodiscard]] Result<void> join(const Group& group);

  const World& world_;
  CallObserver* observer_ = nullptr;
  JobContext& context_;
  Line everyone_, alone_;
  std::deque<Line> lines_;  // of declared groups
  std::set<std::string> names_;
  std::map<std::string, std::vector<RankSet>> sets_;  // of all ranks
  RoundKey key_;  // of the last declaration; counted apart from calls
  bool alone_is_recorded_ = false;
};

}  // namespace lockstep::worker
