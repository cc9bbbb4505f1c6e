// Ranks of a checkpoint that are threads of one process, without a job.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/worker/files/checkpoint/ranks.h>

namespace lockstep::worker {

/// Where the threads meet: each gives a value and gets those of all.
class Meeting {
 public:
  explicit Meeting(int size) : given_(static_cast<std::size_t>(size)) {}
  struct Word {
    Bytes bytes;
    std::optional<Status> failed;
  };
  void send(int from, int to, std::span<const std::byte> message) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to}].emplace_back(message.begin(), message.end());
    turned_.notify_all();
  }
  Bytes receive(int from, int to) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& letters = letters_[{from, to}];
    turned_.wait(lock, [&] { return !letters.empty(); });
    Bytes out = std::move(letters.front());
    letters.pop_front();
    return out;
  }
  std::vector<Word> exchange(int rank, Word word) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    given_[static_cast<std::size_t>(rank)] = std::move(word);
    if (++here_ == given_.size()) {
      all_ = given_, here_ = 0, ++round_;
      turned_.notify_all();
    } else {
      turned_.wait(lock, [&] { return round_ != round; });
    }
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable turned_;
  std::map<std::pair<int, int>, std::deque<Bytes>> letters_;  // from one rank to another
  std::vector<Word> given_, all_;
  std::size_t here_ = 0;
  std::uint64_t round_ = 0;
};

class ThreadRanks final : public CheckpointRanks {
 public:
  ThreadRanks(Meeting& meeting, int rank, int size) : meeting_(meeting), rank_(rank), size_(size) {}
  [[nodiscard]] Rank rank() const override { return Rank{rank_}; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] Result<bool> any(bool mine, const std::optional<Status>& failed) override {
    const auto all = meeting_.exchange(rank_, {Bytes(mine ? 1 : 0), failed});
    bool out = false;
    for (const auto& word : all) {
      if (word.failed) return *word.failed;
      out = out || !word.bytes.empty();
    }
    return out;
  }
  [[nodiscard]] Result<void> settle(const std::optional<Status>& failed) override {
    const auto all = any(false, failed);
    if (!all) return all.error();
    return {};
  }
  [[nodiscard]] Result<std::vector<Bytes>> all_gather(Bytes mine) override {
    std::vector<Bytes> out;
    for (auto& word : meeting_.exchange(rank_, {std::move(mine), {}})) out.push_back(word.bytes);
    return out;
  }
  [[nodiscard]] Result<void> talk(collectives::TreeTalk& mine) override {
    using Need = collectives::Round::Need;
    collectives::TalkRound round(Rank{rank_}, size_, mine);
    while (round.want().need != Need::Done) {
      const int peer = round.want().peer.value;
      if (round.want().need == Need::Send) {
        meeting_.send(rank_, peer, round.outgoing());
        round.sent();
      } else {
        const Bytes message = meeting_.receive(peer, rank_);
        heard_ += message.size();
        round.received(message);
      }
    }
    return {};
  }
  void report_busy() override {}
  /// Bytes that talks have brought to this rank.
  [[nodiscard]] std::size_t heard() const { return heard_; }

 private:
  Meeting& meeting_;
  int rank_, size_;
  std::size_t heard_ = 0;
};

/// Runs `program` on so many threads.
inline void on_threads(int size, const std::function<void(ThreadRanks&)>& program) {
  Meeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(meeting, rank, size);
      program(ranks);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::worker
