#include <algorithm>

#include <lockstep/collectives/simulated.h>
#include <lockstep/worker/simulator/group.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::VirtualNetwork;

/// The round that an action asks for.
std::unique_ptr<collectives::Round> round_of(const Action& action, Rank self, int size) {
  if (const auto* vote = std::get_if<action::Vote>(&action))
    return std::make_unique<collectives::VoteRound>(self, size, vote->mine, vote->combine);
  if (const auto* exchange = std::get_if<action::Exchange>(&action))
    return std::make_unique<collectives::TreeRound>(self, size, exchange->mine, exchange->join);
  const auto& broadcast = std::get<action::Broadcast>(action);
  return std::make_unique<collectives::BroadcastRound>(self, size, broadcast.root, broadcast.mine);
}

void report(CallMachine& machine, const collectives::Round& round) {
  if (const auto* vote = dynamic_cast<const collectives::VoteRound*>(&round))
    machine.voted(vote->result());
  else if (const auto* tree = dynamic_cast<const collectives::TreeRound*>(&round))
    machine.joined(tree->result());
  else
    machine.joined(dynamic_cast<const collectives::BroadcastRound&>(round).result());
}

/// One call on a network of its own: messages of a call that broke off cannot reach the next one.
class Call {
 public:
  Call(Machines machines, const Status& absent)
      : machines_(machines),
        absent_(absent),
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

  [[nodiscard]] bool broke_off() const { return broke_off_; }
  [[nodiscard]] std::uint64_t rounds() const { return count_; }
  [[nodiscard]] std::uint64_t bytes(std::size_t rank) const {
    return network_.traffic(Rank{static_cast<std::int32_t>(rank)}).bytes;
  }

 private:
  /// Moves rank i on to its next round, or to its end.
  void next(std::size_t i) {
    rounds_[i].reset();
    if (!answer_locally(*machines_[i])) return;
    const Rank self{static_cast<std::int32_t>(i)};
    rounds_[i] = round_of(machines_[i]->next(), self, static_cast<int>(machines_.size()));
    network_.communicator(self).start(*rounds_[i]);
  }

  void ended(std::size_t i) {
    if (!network_.communicator(Rank{static_cast<std::int32_t>(i)}).poll()) return give_up(i);
    if (i == 0) ++count_;
    report(*machines_[i], *rounds_[i]);
    next(i);
  }

  void give_up(std::size_t i) {
    broke_off_ = true;
    rounds_[i].reset();
    machines_[i]->failed(absent_);
  }

  Machines machines_;
  const Status& absent_;
  VirtualNetwork network_;
  std::vector<std::unique_ptr<collectives::Round>> rounds_;
  std::uint64_t count_ = 0;
  bool broke_off_ = false;
};

class VirtualGroup final : public Group {
 public:
  explicit VirtualGroup(int size) : bytes_(static_cast<std::size_t>(size), 0) {}

  void run(Machines machines, const Status& absent) override {
    Call call(machines, absent);
    call.run();
    if (call.broke_off()) return;
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

std::unique_ptr<Group> virtual_group(int size) { return std::make_unique<VirtualGroup>(size); }

}  // namespace lockstep::worker::simulator
