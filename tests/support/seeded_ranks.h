// Ranks of one group in one process, in an order that a seed decides: at each poll and each wait
// any other rank may continue, and messages have random delays. One rank runs at a time, so a seed
// gives the same run every time. For tests of code that waits inside its calls, as the call driver
// does.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/communicator.h>

namespace lockstep::worker {

class SeededRanks {
 public:
  SeededRanks(int size, std::uint64_t seed);

  /// Runs `body` on every rank to its end. A wait that can no longer end is Stuck.
  void run(const std::function<void(collectives::Communicator&)>& body);

 private:
  class Member;
  struct Message {
    bool bare;
    Bytes body;
    std::uint64_t due;  // the first turn in which it can be received
  };
  /// Lets the seed choose the next rank; returns when this rank is chosen again.
  void give_way(int self);
  void choose();
  std::deque<Message>& box(int from, int to) {
    return boxes_[static_cast<std::size_t>(from * size_ + to)];
  }

  int size_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable turned_;
  std::vector<bool> alive_;
  std::vector<std::deque<Message>> boxes_;
  int turn_of_ = 0;
  std::uint64_t turns_ = 0, moved_at_ = 0;  // moved_at_: last turn in which something moved
  int in_collective_ = 0;
  std::uint64_t collectives_ = 0;
};

}  // namespace lockstep::worker
