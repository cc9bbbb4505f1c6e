// The groups of one job on one rank: all ranks, this rank alone, and the groups that the program
// declares. Used by job.cpp.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <lockstep/worker/agree/process/world.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {

/// Owns the communicators and rounds of the job context's groups. Single-threaded; destroyed before
/// the world.
class JobGroups {
 public:
  /// All arguments must outlive this object. `rounds` observes the rounds of all groups.
  JobGroups(const World& world, JobContext& context, RoundObserver& rounds)
      : world_(world), context_(context), round_observer_(rounds) {}

  /// Fills in context.everyone and context.alone.
  [[nodiscard]] Result<void> open();
  /// Implements Job::group.
  [[nodiscard]] Result<Group> declare(std::string name, const RankSet& members);
  /// Adds an observer of the calls of all groups from now on; it must outlive this object.
  void observe(CallObserver& observer);
  /// Records the group of this rank alone, before the first call that it decides alone.
  void record_alone();
  /// The driver over all ranks of the job, even with coordination off.
  [[nodiscard]] CallDriver& everyone() { return context_.everyone.driver(); }
  /// Sum over all groups.
  [[nodiscard]] CallTimes times();

 private:
  [[nodiscard]] GroupRounds* open(collectives::Communicator& ranks, RankSet self);
  [[nodiscard]] Result<std::vector<RankSet>> compare(const Result<Group>& mine);
  [[nodiscard]] Result<void> join(const Group& group);

  const World& world_;
  std::vector<CallObserver*> observers_;
  JobContext& context_;
  RoundObserver& round_observer_;
  std::vector<std::unique_ptr<collectives::Communicator>> own_;  // besides the world's
  std::deque<GroupRounds> rounds_;                               // of all groups
  std::set<std::string> names_;
  std::map<std::string, std::vector<RankSet>> sets_;  // of all ranks, by group
  RoundKey key_;  // of the last declaration; counted separately from calls
  bool alone_is_recorded_ = false;
};

}  // namespace lockstep::worker
