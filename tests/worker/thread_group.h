// Ranks as threads of one process, for tests that run a graph on several ranks: collectives by
// copying between the ranks' buffers, and the status round that a job provides.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/run_host.h>

namespace lockstep::worker {

class ThreadGroup {
 public:
  explicit ThreadGroup(int size);
  ~ThreadGroup();
  /// Before run(): a named group of ranks for collectives; one set of it per call.
  void declare(const std::string& name, const std::vector<int>& members);

  /// Runs `body` on every rank and waits for all.
  void run(const std::function<void(collectives::Communicator&, RunHost&)>& body);
  /// Settle rounds so far.
  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] int collectives() const { return collectives_; }

 private:
  class Member;
  struct Set {
    std::string name;
    std::vector<int> members;
    std::unique_ptr<ThreadGroup> group;
  };
  int size_;
  std::vector<Set> sets_;
  std::barrier<> barrier_;
  std::vector<const collectives::Collective*> posted_;
  std::vector<std::optional<Status>> statuses_;
  int rounds_ = 0, collectives_ = 0;
};

/// A group of one, in this thread: what tests of single graphs use.
void run_alone(const std::function<void(collectives::Communicator&, RunHost&)>& body);

}  // namespace lockstep::worker
