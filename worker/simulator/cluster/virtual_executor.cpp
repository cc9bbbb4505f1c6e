#include <algorithm>
#include <optional>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::VirtualNetwork;

/// Returns the round that an action asks for.
std::unique_ptr<collectives::Round> round_of(const Action& action, Rank self, int size) {
  if (const auto* vote = std::get_if<action::Vote>(&action))
    return std::make_unique<collectives::VoteRound>(self, size, vote->mine, vote->combine);
  if (const auto* to_join = std::get_if<action::TreeJoin>(&action))
    return std::make_unique<collectives::TreeRound>(self, size, to_join->mine, to_join->join);
  const auto& broadcast = std::get<action::Broadcast>(action);
  return std::make_unique<collectives::BroadcastRound>(self, size, broadcast.root, broadcast.mine);
}

/// The ranks' actions in a call, round by round, for a clock.
class Story {
 public:
  explicit Story(std::size_t size) : at_(size, 0) {}

  /// Reports rank i's work since its last round and its next round; `action` is null at the end.
  void tell(std::size_t i, const LocalWork& work, const Action* action) {
    const std::size_t chapter = at_[i]++;
    if (chapters_.size() <= chapter) chapters_.emplace_back();
    chapters_[chapter].work.join(work);
    if (action == nullptr) return;
    chapters_[chapter].action = *action;
    const auto* to_join = std::get_if<action::TreeJoin>(action);
    const auto* broadcast = std::get_if<action::Broadcast>(action);
    chapters_[chapter].payloads.resize(at_.size());
    if (to_join != nullptr) chapters_[chapter].payloads[i] = to_join->mine;
    if (broadcast != nullptr) chapters_[chapter].payloads[i] = broadcast->mine;
  }

  void time(RunClock& clock) const {
    for (const Chapter& chapter : chapters_) {
      clock.work(chapter.work);
      if (!chapter.action) continue;
      if (const auto* to_join = std::get_if<action::TreeJoin>(&*chapter.action)) {
        TreeBytes bytes;
        bytes.up.resize(at_.size());
        const auto last = static_cast<std::int32_t>(at_.size()) - 1;
        bytes.down = joined(chapter.payloads, to_join->join, 0, last, bytes).size();
        clock.tree_join(bytes);
      } else if (const auto* broadcast = std::get_if<action::Broadcast>(&*chapter.action)) {
        const auto root = static_cast<std::size_t>(broadcast->root.value);
        clock.broadcast(broadcast->root, chapter.payloads[root].size());
      } else {
        clock.vote();
      }
    }
  }

 private:
  struct Chapter {
    LocalWork work;
    std::optional<Action> action;  // the action of some rank
    std::vector<Bytes> payloads;   // by rank
  };

  /// Returns the join of ranks low to high, which the rank in their middle sends up. Stores the
  /// lengths in `sent`.
  static Bytes joined(const std::vector<Bytes>& payloads, const collectives::Join& join,
                      std::int32_t low, std::int32_t high, TreeBytes& sent) {
    const auto head = static_cast<std::size_t>(low + (high - low) / 2);
    const auto middle = static_cast<std::int32_t>(head);
    Bytes out = payloads[head];
    if (low < middle) out = join(joined(payloads, join, low, middle - 1, sent), out);
    if (middle < high) out = join(out, joined(payloads, join, middle + 1, high, sent));
    sent.up[head] = static_cast<std::uint32_t>(out.size());
    return out;
  }

  std::vector<std::size_t> at_;  // by rank: number of chapters
  std::vector<Chapter> chapters_;
};

/// One call on a network of its own, so that messages of a failed call cannot reach the next one.
class Call {
 public:
  /// `story` may be null.
  Call(Machines machines, const Status& absent, Story* story, const KnownTraces* traces)
      : machines_(machines),
        absent_(absent),
        story_(story),
        traces_(traces),
        network_({.size = static_cast<int>(machines.size())}),
        rounds_(machines.size()) {}

  void run() {
    for (std::size_t i = 0; i < machines_.size(); ++i)
      if (machines_[i]) next(i);
    do {
      for (auto ranks = network_.take_ended(); !ranks.empty(); ranks = network_.take_ended())
        for (const Rank rank : ranks) ended(static_cast<std::size_t>(rank.value));
    } while (network_.step());
    for (std::size_t i = 0; i < machines_.size(); ++i)
      if (machines_[i] && rounds_[i]) give_up(i);
  }

  [[nodiscard]] bool timed_out() const { return timed_out_; }
  [[nodiscard]] std::uint64_t rounds() const { return count_; }
  [[nodiscard]] std::uint64_t bytes(std::size_t rank) const {
    return network_.traffic(Rank{static_cast<std::int32_t>(rank)}).bytes;
  }

 private:
  /// Advances rank i to its next round, or to its end.
  void next(std::size_t i) {
    rounds_[i].reset();
    LocalWork work;
    const bool waits = answer_locally(*machines_[i], &work, traces_);
    if (story_ != nullptr) story_->tell(i, work, waits ? &machines_[i]->next() : nullptr);
    if (!waits) return;
    const Rank self{static_cast<std::int32_t>(i)};
    rounds_[i] = round_of(machines_[i]->next(), self, static_cast<int>(machines_.size()));
    network_.communicator(self).start(*rounds_[i]);
  }

  void ended(std::size_t i) {
    if (!network_.communicator(Rank{static_cast<std::int32_t>(i)}).poll()) return give_up(i);
    if (i == 0) ++count_;
    answer(*machines_[i], *rounds_[i]);
    next(i);
  }

  void give_up(std::size_t i) {
    timed_out_ = true;
    rounds_[i].reset();
    machines_[i]->failed(absent_);
  }

  Machines machines_;
  const Status& absent_;
  Story* story_;
  const KnownTraces* traces_;
  VirtualNetwork network_;
  std::vector<std::unique_ptr<collectives::Round>> rounds_;
  std::uint64_t count_ = 0;
  bool timed_out_ = false;
};

class VirtualExecutor final : public RankExecutor {
 public:
  explicit VirtualExecutor(int size) : bytes_(static_cast<std::size_t>(size), 0) {}

  void run(Machines machines, const Status& absent) override {
    Story story(machines.size());
    Call call(machines, absent, clock_ != nullptr ? &story : nullptr, traces_);
    call.run();
    if (call.timed_out() && clock_ != nullptr) clock_->time_out_all();
    if (call.timed_out()) return;
    if (clock_ != nullptr) story.time(*clock_);
    rounds_ += call.rounds();
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] += call.bytes(i);
  }
  [[nodiscard]] std::uint64_t bytes_per_rank_max() const override {
    return *std::max_element(bytes_.begin(), bytes_.end());
  }
  [[nodiscard]] std::uint64_t rounds() const override { return rounds_; }

 private:
  std::vector<std::uint64_t> bytes_;
  std::uint64_t rounds_ = 0;
};

}  // namespace

std::unique_ptr<RankExecutor> virtual_executor(int size) {
  return std::make_unique<VirtualExecutor>(size);
}

}  // namespace lockstep::worker::simulator
