// A job of 16,384 ranks on 2,048 hosts, in virtual time: how long its ranks take to meet over TCP,
// what each of them sends, and what a vote of them takes. The members and the rounds are those of
// real jobs; messages are priced by the cost model.
#include <algorithm>
#include <functional>
#include <queue>
#include <random>

#include "priced_rounds.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator::meeting_test {
namespace {

using namespace lockstep::collectives;

constexpr int kRanks = 16'384, kPerHost = 8;
/// What a process takes for one that joins, encrypted, and for a short message; measured here:
/// 0.33 to 0.41 ms of a TLS handshake, and 10 us.
constexpr std::int64_t kJoinNs = 400'000, kShortNs = 10'000;

NetworkModel hosts_on_ethernet() {
  NetworkModel network = parse_network("tcp", "").value();
  network.within = parse_network("shm", "").value().within;
  network.ranks_per_host = kPerHost;
  return network;
}

JoinRequest request(std::int32_t rank) {
  return {.job = "train",
          .rank = Rank{rank},
          .size = kRanks,
          .build = "b1",
          .host = "node-1234",
          .host_id = static_cast<std::uint64_t>(rank / kPerHost),
          .pid = 100'000 + rank,
          .port = static_cast<std::uint16_t>(20'000 + rank)};
}

/// All ranks come within a second, in an order from a seed.
class Meeting {
 public:
  Meeting(std::uint64_t seed, bool tree) : tree_(tree), network_(hosts_on_ethernet()) {
    std::mt19937_64 random(seed);
    for (std::int32_t r = 1; r < kRanks; ++r)
      at(static_cast<std::int64_t>(random() % 1'000'000'000), [this, r] { ask(r); });
    while (!events_.empty()) {
      const Event next = events_.top();
      events_.pop();
      now_ = next.time;
      next.happens();
    }
  }

  std::vector<int> children = std::vector<int>(kRanks, 0);
  std::vector<std::uint64_t> sent = std::vector<std::uint64_t>(kRanks, 0);  // bytes
  int most_before_the_door = 0;  // who wait for rank 0 to do its side of their handshake
  int most_on_their_way = 0;     // whose connections rank 0 keeps until they have arrived
  int have_it = 0;
  std::int64_t complete = 0, last = 0;  // all have come; all have the list

 private:
  struct Event {
    std::int64_t time;
    std::uint64_t number;
    std::function<void()> happens;
    bool operator<(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };
  void at(std::int64_t time, std::function<void()> happens) {
    events_.push({time, ++number_, std::move(happens)});
  }
  /// `rank` does what takes so long, once it has done the rest; when that has ended.
  std::int64_t work(std::int32_t rank, std::int64_t takes) {
    auto& until = busy_[static_cast<std::size_t>(rank)];
    return until = std::max(until, now_) + takes;
  }
  [[nodiscard]] std::int64_t latency(std::int32_t a, std::int32_t b) const {
    return network_.link(Rank{a}, Rank{b}).latency_ns;
  }
  /// A connection, its handshake, the request.
  void ask(std::int32_t rank) {
    at(now_ + 5 * latency(rank, 0), [this, rank] {
      most_before_the_door = std::max(most_before_the_door, ++before_the_door_);
      at(work(0, kJoinNs), [this, rank] { joined(rank); });
    });
  }
  /// Its handshake is done.
  void joined(std::int32_t rank) {
    --before_the_door_;
    const auto answer = members_.join(request(rank), std::to_string(rank));
    if (!answer.wait_at || !tree_) {
      members_.arrived(Rank{rank});
      return wait(0, rank);
    }
    most_on_their_way = std::max(most_on_their_way, ++on_their_way_);
    const auto parent = static_cast<std::int32_t>(std::stoi(answer.wait_at->address));
    at(now_ + latency(0, rank) + 5 * latency(rank, parent), [this, rank, parent] {
      at(work(parent, kJoinNs), [this, rank, parent] { wait(parent, rank); });
    });
  }
  void wait(std::int32_t parent, std::int32_t rank) {
    parents_[static_cast<std::size_t>(rank)] = parent;
    below_[static_cast<std::size_t>(parent)].push_back(rank);
    ++children[static_cast<std::size_t>(parent)];
    present(parent, rank);
  }
  /// The word that `rank` waits is at `place`, and goes on to rank 0.
  void present(std::int32_t place, std::int32_t rank) {
    const std::int64_t done = work(place, kShortNs);
    if (place == 0) {
      if (parents_[static_cast<std::size_t>(rank)] != 0) --on_their_way_;
      members_.arrived(Rank{rank});
      if (members_.complete() && complete == 0) at(complete = done, [this] { give(0); });
      return;
    }
    const std::int32_t above = parents_[static_cast<std::size_t>(place)];
    if (above < 0)  // itself on its way: it says so when it has come
      return at(done + latency(place, 0), [this, place, rank] { present(place, rank); });
    at(done + latency(place, above), [this, above, rank] { present(above, rank); });
  }
  void give(std::int32_t rank) {
    ++have_it;
    last = std::max(last, now_);
    for (const std::int32_t child : below_[static_cast<std::size_t>(rank)]) {
      const std::int64_t out = work(rank, network_.busy_ns(Rank{rank}, Rank{child}, list_bytes_));
      sent[static_cast<std::size_t>(rank)] += list_bytes_;
      at(out + latency(rank, child), [this, child] { give(child); });
    }
  }
  [[nodiscard]] static std::uint64_t list_bytes() {
    RosterPart part;
    part.peers.assign(RosterPart::kMostPeers, {{"10.112.113.114", 20'000}, "node-1234", 1, 1});
    return encode(part).size() * (kRanks / RosterPart::kMostPeers);
  }

  bool tree_;
  NetworkModel network_;
  RendezvousMembers members_{request(0)};
  std::priority_queue<Event> events_;
  std::uint64_t number_ = 0, list_bytes_ = list_bytes();
  int before_the_door_ = 0, on_their_way_ = 0;
  std::int64_t now_ = 0;
  std::vector<std::int64_t> busy_ = std::vector<std::int64_t>(kRanks, 0);
  std::vector<std::int32_t> parents_ = std::vector<std::int32_t>(kRanks, -1);
  std::vector<std::vector<std::int32_t>> below_ = std::vector<std::vector<std::int32_t>>(kRanks);
};

/// By host.
template <class Number>
std::vector<Number> by_host(const std::vector<Number>& by_rank) {
  std::vector<Number> out(kRanks / kPerHost, 0);
  for (std::size_t r = 0; r < by_rank.size(); ++r) out[r / kPerHost] += by_rank[r];
  return out;
}

TEST(Meeting, Of16384Ranks_GivesRank0NoMoreThanOthers) {
  const Meeting tree(1, true), star(1, false);
  EXPECT_EQ(tree.have_it, kRanks);
  EXPECT_EQ(star.have_it, kRanks);
  const auto held = by_host(tree.children);
  EXPECT_EQ(held[0], *std::max_element(held.begin(), held.end()));
  EXPECT_EQ(held[0], static_cast<int>(RendezvousTree::kHosts) + kPerHost - 1);
  EXPECT_EQ(tree.sent[0], *std::max_element(tree.sent.begin(), tree.sent.end()));
  EXPECT_LT(tree.sent[0], star.sent[0] / 1000);
  EXPECT_LT(tree.most_on_their_way, 64);
  const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e9; };
  std::printf(
      "16384 ranks on 2048 hosts: all had come after %.2f s and had the list after %.3f s more; "
      "rank 0 kept %d, %d on their way and %d before their handshakes at most, and sent %.1f MB "
      "(without the tree: %d, %.1f "
      "GB and %.2f s more)\n",
      seconds(tree.complete), seconds(tree.last - tree.complete), tree.children[0],
      tree.most_on_their_way, tree.most_before_the_door, static_cast<double>(tree.sent[0]) / 1e6,
      star.children[0], static_cast<double>(star.sent[0]) / 1e9,
      seconds(star.last - star.complete));
  EXPECT_LT(seconds(tree.last - tree.complete), 1);
}

TEST(Meeting, VoteOf16384Ranks_CostsLessWhereOneSpeaksForEachHost) {
  std::vector<std::uint64_t> hosts;
  for (int r = 0; r < kRanks; ++r) hosts.push_back(static_cast<std::uint64_t>(r / kPerHost));
  const HostRuns runs(hosts);
  const auto cost = [&](const HostRuns* given) {
    PricedRounds priced(hosts_on_ethernet(), std::vector<std::int64_t>(kRanks, 0));
    std::vector<std::unique_ptr<Round>> rounds;
    for (std::int32_t r = 0; r < kRanks; ++r)
      rounds.push_back(std::make_unique<VoteRound>(Rank{r}, kRanks, Vote{}, Combine::And, given));
    priced.run(rounds);
    return std::pair(*std::max_element(priced.now().begin(), priced.now().end()),
                     priced.between_hosts());
  };
  const auto [flat, flat_messages] = cost(nullptr);
  const auto [hosted, hosted_messages] = cost(&runs);
  std::printf(
      "a vote of 16384 ranks: %.0f us and %lld messages between hosts; by one of each host: %.0f "
      "us and %lld\n",
      static_cast<double>(flat) / 1e3, static_cast<long long>(flat_messages),
      static_cast<double>(hosted) / 1e3, static_cast<long long>(hosted_messages));
  EXPECT_EQ(hosted_messages * kPerHost, flat_messages);
  EXPECT_LT(static_cast<double>(hosted), 1.05 * static_cast<double>(flat));
}

}  // namespace
}  // namespace lockstep::worker::simulator::meeting_test
