// Says which processes of the ranks of one host have ended or are suspended, by asking the
// operating system. Used by the watchdog's thread only; Linux.
#pragma once

#include <cstdint>
#include <vector>

#include <poll.h>

namespace lockstep::collectives {

/// Watches processes for their end. Used by one thread.
class Processes {
 public:
  explicit Processes(int ranks) : of_rank_(static_cast<std::size_t>(ranks)) {}
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Watches `pid` as the process of `rank`; does nothing if it is watched already.
  void watch(int rank, std::int32_t pid);
  [[nodiscard]] bool watched(int rank) const { return at(rank).pid != 0; }
  /// True if the process of `rank` has ended. Stays true.
  [[nodiscard]] bool ended(int rank) const { return at(rank).ended; }
  /// True if the process of `rank` is suspended by a signal or a debugger.
  [[nodiscard]] bool stopped(int rank) const;
  /// Waits until a process ends, `event` is readable, or the time is up; then updates ended().
  void wait(int event, int milliseconds);

 private:
  struct Process {
    std::int32_t pid = 0;
    int descriptor = -1;  // -1: the kernel gave none, so wait() looks for the process itself
    bool ended = false;
  };
  [[nodiscard]] const Process& at(int rank) const {
    return of_rank_[static_cast<std::size_t>(rank)];
  }
  std::vector<Process> of_rank_;
  std::vector<pollfd> polled_;
};

}  // namespace lockstep::collectives
