// One rank of a simulated job: goes through the steps of the program as the process of a real job
// would, on a fiber of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "environment.h"
#include "fiber.h"
#include "fiber_communicator.h"
#include "program.h"
#include "restart.h"
#include "run.h"
#include "workshop.h"

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::fuzz {

class SimulatedProcess {
 public:
  /// All outlive it. `promises` are those of the program.
  SimulatedProcess(const Program& program, const std::vector<std::vector<std::size_t>>& promises,
                   collectives::VirtualNetwork& network, int rank, Scratch& scratch,
                   ProfileDisk* profiles, Run& run);

  /// Goes on until the rank waits or is over.
  void resume() { fiber_->resume(); }
  [[nodiscard]] bool over() const { return fiber_->ended(); }
  /// The rank is out of the job: takes its fiber to its end.
  void abandon();
  /// What is worth keeping of the frames of a group.
  [[nodiscard]] std::map<std::string, coordinator::Profile> profiles(std::size_t group);
  /// The rank is suspended until then: a pause ends no sooner.
  void suspend(Instant until) { suspended_until_ = until; }
  /// A pause has ended.
  [[nodiscard]] bool take_woken() { return std::exchange(woken_, false); }

 private:
  struct Group {
    std::size_t index = 0;
    std::size_t place = 0;  // of this rank in it
    std::unique_ptr<FiberCommunicator> communicator;
    std::unique_ptr<worker::GroupRounds> rounds;
    std::unique_ptr<worker::Agreement> agreement;
    std::uint64_t epoch = 0, ordinal = 0;
    bool lost = false;                 // out of step, on the way to a resync
    std::set<std::size_t> prefetched;  // steps whose calls this rank has promised
  };
  /// What an operation leaves to do.
  enum class Next : std::uint8_t {
    GoOn,
    Lost,  // this step is over
    End,   // the job is over for this rank
  };

  void live();
  void make_group(std::size_t index, ProfileDisk* profiles);
  [[nodiscard]] Next agree_tools();
  [[nodiscard]] Next audit(Group& group, std::size_t index);
  void call_alone(std::size_t index, const Values& inputs);
  void finish();
  [[nodiscard]] Next step(std::size_t index);
  /// Faults that strike before a step; false: it leaves the step out.
  [[nodiscard]] bool arrives(std::size_t index);
  [[nodiscard]] bool in_turn(Group& group, std::size_t now, std::size_t index);
  void prefetch(Group& group, std::size_t index);
  [[nodiscard]] Next call(Group& group, std::size_t index, const Values& inputs, int turn);
  [[nodiscard]] Next more(Group& group, std::size_t index);
  [[nodiscard]] Next vote(Group& group, Ended ended, bool mine);
  [[nodiscard]] Next settle(Group& group, std::size_t index, worker::RankStatus rank_status = {});
  [[nodiscard]] Next resync(Group& group, std::size_t index);
  [[nodiscard]] Next depart(Group& group, std::size_t index);
  /// It has broken a promise, or heard that another rank has: ends its part of the job.
  [[nodiscard]] Next end_with_broken_promise(Group& group, std::size_t index);
  [[nodiscard]] worker::RankStatus rank_status_of(std::size_t index, bool alone,
                                                  Ended& ended) const;
  /// Time in which votes that are out may move.
  void compute();
  void pause(Duration time);
  void leave();
  [[nodiscard]] const Fault* fault(Fault::Kind kind, std::size_t step) const;
  [[nodiscard]] std::optional<std::uint64_t> amount(Fault::Kind kind, std::size_t step) const;
  [[nodiscard]] const Fault* fault(Fault::Kind kind) const;
  [[nodiscard]] Ended begin(Group& group, std::size_t index);
  [[nodiscard]] Next record(Group& group, Ended ended);
  void take_out() { run_.taken_out.insert(RankSet::of(rank_)); }

  const Program& program_;
  const std::vector<std::vector<std::size_t>>& promises_;
  collectives::VirtualNetwork& network_;
  Rank rank_;
  Run& run_;
  bool abandoned_ = false, woken_ = false;
  Instant suspended_until_{};
  std::vector<std::unique_ptr<Group>> groups_;  // null where it is no member
  std::unique_ptr<Workshop> workshop_;          // null: nothing is built
  std::unique_ptr<FiberCommunicator> alone_;
  std::unique_ptr<worker::Agreement> local_;  // over itself alone
  std::unique_ptr<Fiber> fiber_;
};

}  // namespace lockstep::fuzz
