// Tells a coordinator of this rank's calls: counts them all, and passes on those in which more
// happened than running an entry that was there.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <lockstep/coordinator/client/feed.h>
#include <lockstep/worker/agreement/call_driver.h>

namespace lockstep::worker {

/// One rank's, for all its drivers. One thread.
class CallTeller final : public CallObserver {
 public:
  explicit CallTeller(std::shared_ptr<coordinator::Feed> feed) : feed_(std::move(feed)) {}

  void missed(const CallMachine& machine) override;
  void ended(const CallMachine& machine, const CallOutcome& outcome,
             const CallTimes& took) override;

 private:
  void count(const CallOutcome& outcome, const CallTimes& took);
  std::shared_ptr<coordinator::Feed> feed_;
  coordinator::CallCounters counters_;
  std::string why_;  // no entry fits, in the call under way
};

}  // namespace lockstep::worker
