// Ranks as threads of one process, for tests that run a graph on several ranks: collectives copy
// between the ranks' buffers, and a status round is like a job's. If ranks meet in different
// operations, or in sizes that do not fit, or a rank never comes, all ranks that wait get an error
// (Stuck); they never hang.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/run/run_host.h>

namespace lockstep::worker {

class ThreadGroup {
 public:
  explicit ThreadGroup(int size);
  ~ThreadGroup();
  /// Declares, before run(), a named group of ranks for collectives; one set of it per call.
  void declare(const std::string& name, const std::vector<int>& members);

  /// Runs `body` on every rank and waits for all.
  void run(const std::function<void(collectives::Communicator&, RunHost&)>& body);
  /// Number of status rounds so far.
  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] int collectives() const { return collectives_; }

 private:
  class Member;
  struct Set {
    std::string name;
    std::vector<int> members;
    std::unique_ptr<ThreadGroup> group;
  };
  friend void run_alone(const std::function<void(collectives::Communicator&, RunHost&)>& body,
                        Threads* threads);
  int size_;
  Threads* threads_ = nullptr;
  std::vector<Set> sets_;
  std::barrier<> barrier_;
  /// What a rank waits in: a collective, or (null) a status round.
  struct Post {
    const collectives::Collective* collective = nullptr;
    std::optional<LocalFailure> failure;
  };
  std::vector<std::optional<Post>> posts_;
  int rounds_ = 0, collectives_ = 0;
};

/// Runs `body` on a group of one, in this thread, for tests of single graphs. `threads` share its
/// kernels; null: this thread does them.
void run_alone(const std::function<void(collectives::Communicator&, RunHost&)>& body,
               Threads* threads = nullptr);

}  // namespace lockstep::worker
