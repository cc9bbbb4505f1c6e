#include "seeded_ranks.h"

#include <thread>

namespace lockstep::worker {
namespace {

using collectives::Collective;
using collectives::Round;

constexpr std::uint64_t kLongestDelay = 12;  // in turns

}  // namespace

class SeededRanks::Member final : public collectives::Communicator {
 public:
  Member(SeededRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}

  [[nodiscard]] Rank rank() const override { return Rank{rank_}; }
  [[nodiscard]] int size() const override { return ranks_.size_; }
  [[nodiscard]] std::string name() const override { return "seeded"; }

  void start(Round& round) override {
    round_ = &round;
    advance();
  }
  /// Blocks like a data collective of MPI, and advances no round meanwhile. Carries no data.
  [[nodiscard]] Result<void> start(const Collective&) override {
    const std::uint64_t mine = ranks_.collectives_;
    if (++ranks_.in_collective_ == ranks_.size_) {
      ranks_.in_collective_ = 0;
      ++ranks_.collectives_;
    }
    moved();
    return wait_until([&] { return ranks_.collectives_ > mine; });
  }
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override {
    return start(collective);
  }
  [[nodiscard]] Result<bool> poll() override {
    ranks_.give_way(rank_);
    advance();
    if (failure_) return *failure_;
    return round_ == nullptr;
  }
  [[nodiscard]] Result<void> wait() override {
    return wait_until([this] {
      advance();
      return round_ == nullptr;
    });
  }

 private:
  void moved() { ranks_.moved_at_ = ranks_.turns_; }

  template <class Over>
  Result<void> wait_until(const Over& over) {
    while (!failure_ && !over()) {
      if (ranks_.turns_ > ranks_.moved_at_ + 10'000)
        failure_ = Status{Code::Stuck, "nothing moves any more", {}, {}};
      else
        ranks_.give_way(rank_);
    }
    if (failure_) return *failure_;
    return {};
  }

  void send(Rank to) {
    const auto body = round_->outgoing();
    ranks_.box(rank_, to.value)
        .push_back({round_->message_bytes() != 0,
                    {body.begin(), body.end()},
                    ranks_.turns_ + ranks_.random_() % kLongestDelay});
    sent_ = true;
    moved();
  }

  bool receive(Rank from) {
    auto& box = ranks_.box(from.value, rank_);
    if (box.empty() || box.front().due > ranks_.turns_) return false;
    const Message message = std::move(box.front());
    box.pop_front();
    sent_ = false;
    moved();
    if (message.bare == (round_->message_bytes() != 0))
      round_->received(message.body);
    else
      failure_ = Status{Code::Internal, "a vote met an exchange", {}, {}};
    return true;
  }

  void advance() {
    while (round_ != nullptr && !failure_) {
      const Round::Want want = round_->want();
      if (want.need == Round::Need::Done) {
        round_ = nullptr;
        return;
      }
      if (want.need != Round::Need::Receive && !sent_) send(want.peer);
      if (want.need == Round::Need::Send) {
        sent_ = false;
        round_->sent();
      } else if (!receive(want.peer)) {
        return;
      }
    }
  }

  SeededRanks& ranks_;
  int rank_;
  Round* round_ = nullptr;
  bool sent_ = false;
  std::optional<Status> failure_;
};

SeededRanks::SeededRanks(int size, std::uint64_t seed)
    : size_(size), random_(seed), boxes_(static_cast<std::size_t>(size * size)) {}

void SeededRanks::choose() {
  ++turns_;
  std::vector<int> alive;
  for (int r = 0; r < size_; ++r)
    if (alive_[static_cast<std::size_t>(r)]) alive.push_back(r);
  if (!alive.empty()) turn_of_ = alive[random_() % alive.size()];
  turned_.notify_all();
}

void SeededRanks::give_way(int self) {
  std::unique_lock lock(mutex_);
  choose();
  turned_.wait(lock, [&] { return turn_of_ == self; });
}

void SeededRanks::run(const std::function<void(collectives::Communicator&)>& body) {
  alive_.assign(static_cast<std::size_t>(size_), true);
  moved_at_ = turns_;
  turn_of_ = 0;
  std::vector<std::thread> threads;
  for (int r = 0; r < size_; ++r)
    threads.emplace_back([&, r] {
      {
        std::unique_lock lock(mutex_);
        turned_.wait(lock, [&] { return turn_of_ == r; });
      }
      Member member(*this, r);
      body(member);
      const std::scoped_lock lock(mutex_);
      alive_[static_cast<std::size_t>(r)] = false;
      choose();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::worker
