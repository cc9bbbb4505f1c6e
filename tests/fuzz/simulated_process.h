// One rank of a simulated job: goes through the steps of the program as the process of a real job
// would, on a fiber of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "environment.h"
#include "fiber.h"
#include "fiber_communicator.h"
#include "program.h"
#include "run.h"

#include <lockstep/collectives/simulated.h>
#include <lockstep/worker/call_driver.h>

namespace lockstep::fuzz {

class SimulatedProcess {
 public:
  /// All outlive it.
  SimulatedProcess(const Program& program, collectives::VirtualNetwork& network, int rank,
                   Run& run);

  /// Goes on until the rank waits or is over.
  void resume() { fiber_->resume(); }
  [[nodiscard]] bool over() const { return fiber_->ended(); }
  /// The rank is out of the job: takes its fiber to its end.
  void abandon();
  /// A pause has ended.
  [[nodiscard]] bool take_woken() { return std::exchange(woken_, false); }

 private:
  struct Group {
    std::size_t index = 0;
    std::unique_ptr<FiberCommunicator> communicator;
    std::unique_ptr<worker::CallDriver> driver;
    worker::RoundKey key;
    std::map<std::string, worker::Frame> frames;
  };

  void live();
  /// False: the job is over for this rank.
  [[nodiscard]] bool step(std::size_t index);
  void call(Group& group, std::size_t index, Ended& ended);
  void status_round(Group& group, worker::RoundKey::Kind kind, worker::Standing standing,
                    Ended& ended);
  void any(Group& group, const Step& step, Ended& ended);
  void pause(Duration time);
  void leave();
  [[nodiscard]] const Fault* fault(Fault::Kind kind, std::size_t step) const;
  [[nodiscard]] Ended begin(Group& group, std::size_t index);
  /// False: the job is over for this rank.
  [[nodiscard]] bool record(Group& group, Ended ended);

  const Program& program_;
  collectives::VirtualNetwork& network_;
  Rank rank_;
  Run& run_;
  bool abandoned_ = false, woken_ = false;
  std::vector<std::unique_ptr<Group>> groups_;  // null where it is no member
  std::unique_ptr<Fiber> fiber_;
};

}  // namespace lockstep::fuzz
