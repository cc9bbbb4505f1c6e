// Reports this rank's calls to a coordinator: counts them all, and sends an event for each that did
// not just run an existing entry.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <lockstep/coordinator/client/feed.h>
#include <lockstep/worker/agree/agreement/call_driver.h>

namespace lockstep::worker {

/// One per rank, for all its drivers. Single-threaded.
class CallReporter final : public CallObserver {
 public:
  explicit CallReporter(std::shared_ptr<coordinator::Feed> feed) : feed_(std::move(feed)) {}

  void missed(const CallMachine& machine) override;
  void ended(const CallMachine& machine, const CallOutcome& outcome,
             const CallTimes& took) override;

 private:
  void count(const CallOutcome& outcome, const CallTimes& took);
  std::shared_ptr<coordinator::Feed> feed_;
  coordinator::CallCounters counters_;
  std::string why_;  // why no entry fits, in the current call
};

}  // namespace lockstep::worker
