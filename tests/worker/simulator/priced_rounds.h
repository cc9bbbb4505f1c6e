// Rounds in virtual time, every message of which is priced by itself.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// Rounds that are moved rank by rank, in any order: who waits for a message that has not been sent
/// is left alone. Each rank has a clock of its own, which messages carry.
class PricedRounds {
 public:
  PricedRounds(const NetworkModel& network, std::vector<std::int64_t> now)
      : network_(network.in_world(static_cast<int>(now.size()))), now_(std::move(now)) {}

  /// One of each rank; `joins`: payloads are joined on their way up the ordered tree, and read.
  void run(const std::vector<std::unique_ptr<collectives::Round>>& rounds, bool joins = false) {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto r = static_cast<std::int32_t>(rounds.size()); r-- > 0;)
        while (move(Rank{r}, *rounds[static_cast<std::size_t>(r)], joins)) moved = true;
    }
    for (std::size_t i = 0; joins && i < now_.size(); ++i)
      now_[i] += transfer_ns(rounds[i]->outgoing().size(), network_.read_bytes_per_us);
  }
  [[nodiscard]] const std::vector<std::int64_t>& now() const { return now_; }
  /// Messages from one host to another.
  [[nodiscard]] std::int64_t between_hosts() const { return between_hosts_; }

 private:
  using Round = collectives::Round;
  struct Message {
    std::int64_t arrival;
    Bytes body;
  };

  void post(Rank self, Rank peer, const Round& round) {
    const auto body = round.outgoing();
    posted_[{self.value, peer.value}].push_back(
        {clock(self) + network_.message_ns(self, peer, body.size()), {body.begin(), body.end()}});
    clock(self) += network_.busy_ns(self, peer, body.size());
    if (!network_.one_host(self, peer)) ++between_hosts_;
  }

  bool move(Rank self, Round& round, bool joins) {
    const Round::Want want = round.want();
    if (want.need == Round::Need::Done) return false;
    if (want.need == Round::Need::Send) {
      post(self, want.peer, round);
      round.sent();
      return true;
    }
    if (want.need == Round::Need::Swap && !swapping_[self.value]) {
      swapping_[self.value] = true;
      post(self, want.peer, round);
    }
    auto& mail = posted_[{want.peer.value, self.value}];
    if (mail.empty()) return false;
    const Message message = std::move(mail.front());
    mail.pop_front();
    swapping_[self.value] = false;
    clock(self) = std::max(clock(self), message.arrival);
    const int size = static_cast<int>(now_.size());
    if (joins && collectives::TreePlace::of(self, size).parent != want.peer)
      clock(self) += transfer_ns(message.body.size(), network_.join_bytes_per_us);
    round.received(message.body);
    return true;
  }
  std::int64_t& clock(Rank rank) { return now_[static_cast<std::size_t>(rank.value)]; }

  NetworkModel network_;
  std::vector<std::int64_t> now_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Message>> posted_;
  std::map<std::int32_t, bool> swapping_;
  std::int64_t between_hosts_ = 0;
};

}  // namespace lockstep::worker::simulator
