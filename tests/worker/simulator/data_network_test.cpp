// Data collectives over hosts of devices: by hand, and against the messages themselves on clocks of
// every rank.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <lockstep/worker/simulator/cost/data_network.h>

namespace lockstep::worker::simulator::data_network_test {
namespace {

using Kind = DataCollective::Kind;
constexpr Kind kKinds[] = {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll};

/// 1 us and 10 GB/s in a host, 5 us and 1 GB/s between them.
DataNetwork hosts_of(std::int32_t ranks) {
  return {.name = "hosts",
          .within = {.latency_ns = 1000, .bytes_per_us = 10'000},
          .between = {.latency_ns = 5000, .bytes_per_us = 1'000},
          .ranks_per_host = ranks};
}

TEST(DataNetwork, OneHost_IsARingOfItsDevices) {
  const DataNetwork network = hosts_of(4);
  // 3 messages of 10,000 bytes, which take 1 us of latency and 1 us each.
  EXPECT_EQ(collective_ns({Kind::ReduceScatter, 40'000}, network, 4), 3 * 2000);
  EXPECT_EQ(collective_ns({Kind::AllGather, 40'000}, network, 4), 3 * 2000);
  EXPECT_EQ(collective_ns({Kind::AllReduce, 40'000}, network, 4), 6 * 2000);
  EXPECT_EQ(collective_ns({Kind::AllToAll, 40'000}, network, 4), 1000 + 3 * 1000);
  EXPECT_EQ(collective_ns({Kind::AllReduce, 40'000}, network, 1), 0);
}

TEST(DataNetwork, SeveralHosts_ShareWhatPassesBetweenThem) {
  const DataNetwork network = hosts_of(4);
  // 16 ranks on 4 hosts: shares of 4,000 bytes in a host, blocks of 1,000 between hosts; one block
  // over distance 1, two over distance 2.
  const std::int64_t in_host = 3 * (1000 + 400), between = (5000 + 1000) + (5000 + 2000);
  EXPECT_EQ(collective_ns({Kind::ReduceScatter, 16'000}, network, 16), in_host + between);
  EXPECT_EQ(collective_ns({Kind::AllGather, 16'000}, network, 16), in_host + between);
  EXPECT_EQ(collective_ns({Kind::AllReduce, 16'000}, network, 16), 2 * (in_host + between));
  // 12 blocks to ranks of other hosts, while 3 go to those of the own one.
  EXPECT_EQ(collective_ns({Kind::AllToAll, 16'000}, network, 16), 5000 + 12 * 1000);
}

TEST(DataNetwork, ThreeHosts_SendEachBlockOnce) {
  // Distances 1 and 2 with one block each.
  EXPECT_EQ(collective_ns({Kind::AllGather, 3000}, hosts_of(1), 3), 2 * (5000 + 1000));
}

TEST(DataNetwork, ALastHostThatIsNotFull_CountsAsFull) {
  for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather})
    EXPECT_EQ(collective_ns({kind, 16'000}, hosts_of(4), 13),
              collective_ns({kind, 16'000}, hosts_of(4), 16));
}

TEST(DataNetwork, Staging_AddsACopyOutAndACopyIn) {
  DataNetwork plain = hosts_of(2), staged = plain;
  staged.staging = {.latency_ns = 300, .bytes_per_us = 2'000};
  const auto detour = [&](Kind kind) {
    return collective_ns({kind, 8000}, staged, 4) - collective_ns({kind, 8000}, plain, 4);
  };
  const std::int64_t all = 300 + 4000, share = 300 + 1000;
  EXPECT_EQ(detour(Kind::AllReduce), all + all);
  EXPECT_EQ(detour(Kind::ReduceScatter), all + share);
  EXPECT_EQ(detour(Kind::AllGather), share + all);
  EXPECT_EQ(detour(Kind::AllToAll), all + all);
}

/// Every rank's clock, moved by messages one by one. An oracle: it knows ranks and messages and no
/// formula.
class Ranks {
 public:
  Ranks(const DataNetwork& network, int size)
      : network_(network), size_(size), at_(static_cast<std::size_t>(size), 0) {}

  [[nodiscard]] std::int64_t latest() const { return *std::max_element(at_.begin(), at_.end()); }

  std::int64_t run(const DataCollective& collective) {
    const std::int64_t hosts = size_ / network_.ranks_per_host;
    const std::int64_t in_host = up(collective.bytes, network_.ranks_per_host);
    const std::int64_t block = up(in_host, hosts);
    switch (collective.kind) {
      case Kind::ReduceScatter:
        ring(in_host);
        spread(block, true);
        break;
      case Kind::AllGather:
        spread(block, false);
        ring(in_host);
        break;
      case Kind::AllReduce:
        ring(in_host);
        spread(block, true);
        spread(block, false);
        ring(in_host);
        break;
      case Kind::AllToAll:
        pairs(up(collective.bytes, size_));
    }
    return latest();
  }

 private:
  static std::int64_t up(std::int64_t bytes, std::int64_t parts) {
    return (bytes + parts - 1) / parts;
  }
  [[nodiscard]] bool neighbours(int a, int b) const {
    return a / network_.ranks_per_host == b / network_.ranks_per_host;
  }

  /// All ranks send at once; `to` says to whom.
  template <class To>
  void swap(std::int64_t bytes, To to) {
    std::vector<std::int64_t> next = at_;
    for (int from = 0; from < size_; ++from) {
      const int receiver = to(from);
      const Link& link = neighbours(from, receiver) ? network_.within : network_.between;
      const std::int64_t busy = transfer_ns(static_cast<std::uint64_t>(bytes), link.bytes_per_us);
      const std::int64_t start = at_[static_cast<std::size_t>(from)];
      std::int64_t& sender = next[static_cast<std::size_t>(from)];
      std::int64_t& receives = next[static_cast<std::size_t>(receiver)];
      sender = std::max(sender, start + busy);
      receives = std::max(receives, start + busy + link.latency_ns);
    }
    at_ = next;
  }

  /// Round the ranks of each host.
  void ring(std::int64_t share) {
    const int g = network_.ranks_per_host;
    for (int step = 1; step < g; ++step)
      swap(share, [g](int from) { return from / g * g + (from % g + 1) % g; });
  }

  /// Among ranks of the same place: who holds how many blocks is counted, host by host.
  void spread(std::int64_t block, bool backwards) {
    const int g = network_.ranks_per_host, hosts = size_ / g;
    std::vector<std::pair<int, int>> steps;  // distance, blocks
    for (int held = 1; held < hosts;) {
      const int passed = std::min(held, hosts - held);
      steps.emplace_back(held, passed);
      held += passed;
    }
    if (backwards) std::reverse(steps.begin(), steps.end());
    for (const auto& step : steps) {
      const int distance = step.first;
      swap(block * step.second,
           [=](int from) { return (from / g + distance) % hosts * g + from % g; });
    }
  }

  /// One link for each kind of peer; messages to peers in order of their distance, so that nobody
  /// receives two at once.
  void pairs(std::int64_t share) {
    std::vector<std::int64_t> done = at_;
    std::vector<std::int64_t> within = at_, between = at_;  // when the sender's link is free
    for (int step = 1; step < size_; ++step)
      for (int from = 0; from < size_; ++from) {
        const int to = (from + step) % size_;
        const bool near = neighbours(from, to);
        const Link& link = near ? network_.within : network_.between;
        std::int64_t& free = (near ? within : between)[static_cast<std::size_t>(from)];
        free += transfer_ns(static_cast<std::uint64_t>(share), link.bytes_per_us);
        std::int64_t& receiver = done[static_cast<std::size_t>(to)];
        receiver = std::max(receiver, free + link.latency_ns);
      }
    at_ = done;
  }

  const DataNetwork& network_;
  int size_;
  std::vector<std::int64_t> at_;
};

DataNetwork random_network(std::mt19937_64& random) {
  const auto link = [&] {
    return Link{.latency_ns = static_cast<std::int64_t>(random() % 9000),
                .bytes_per_us = static_cast<std::int64_t>(1 + random() % 500'000)};
  };
  return {.name = "random",
          .within = link(),
          .between = link(),
          .ranks_per_host = static_cast<std::int32_t>(1 + random() % 9)};
}

TEST(DataNetwork, MessageByMessage_TakesTheSameNanoseconds) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const DataNetwork network = random_network(random);
    const int size = network.ranks_per_host * static_cast<int>(1 + random() % 13);
    if (size == 1) continue;
    for (const Kind kind : kKinds) {
      const DataCollective collective{kind, static_cast<std::int64_t>(random() % (1U << 22))};
      EXPECT_EQ(collective_ns(collective, network, size), Ranks(network, size).run(collective))
          << "seed " << seed << " kind " << static_cast<int>(kind) << " size " << size;
    }
  }
}

TEST(DataNetwork, MoreBytesOrSlowerLinks_NeverTakeLess) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    const DataNetwork fast = random_network(random);
    const int size = static_cast<int>(2 + random() % 60);
    const DataCollective few{kKinds[random() % 4], static_cast<std::int64_t>(random() % 100'000)};
    const std::int64_t took = collective_ns(few, fast, size);
    DataCollective more = few;
    more.bytes += static_cast<std::int64_t>(random() % 1000);
    EXPECT_GE(collective_ns(more, fast, size), took) << "seed " << seed;
    DataNetwork slow = fast;
    Link& link = random() % 2 == 0 ? slow.within : slow.between;
    link.bytes_per_us = std::max<std::int64_t>(1, link.bytes_per_us - 1000);
    link.latency_ns += 10;
    EXPECT_GE(collective_ns(few, slow, size), took) << "seed " << seed;
    slow.staging = link;
    EXPECT_GT(collective_ns(few, slow, size), took) << "seed " << seed;
  }
}

TEST(DataNetwork, LongTimes_AreCapped) {
  DataNetwork slow = hosts_of(8);
  slow.within.bytes_per_us = slow.between.bytes_per_us = 1;
  slow.staging = slow.within;
  for (const Kind kind : kKinds)
    EXPECT_EQ(collective_ns({kind, std::int64_t{1} << 50}, slow, 1 << 24), kLongest);
}

TEST(DataNetwork, Presets_AreWhatTheirTableSays) {
  const auto dgx = data_network_preset("dgx_h100");
  ASSERT_TRUE(dgx);
  EXPECT_EQ(dgx->ranks_per_host, 8);
  EXPECT_EQ(dgx->within.bytes_per_us, 18 * 20'600);  // 18 links by NCCL's figure
  EXPECT_EQ(dgx->between.bytes_per_us, 48'000);      // 400 Gb/s, 96 of 100 parts
  // 1 GB summed over 128 devices: 7/8 of it in a host, 15/16 of an eighth between hosts, twice.
  const std::int64_t in_host = 7 * (1'900 + 337'109), between = 4 * 4'000 + 2'441'407;
  EXPECT_NEAR(static_cast<double>(collective_ns({Kind::AllReduce, 1'000'000'000}, *dgx, 128)),
              2.0 * static_cast<double>(in_host + between), 20);
  for (const auto name : data_network_names()) EXPECT_TRUE(data_network_preset(name)) << name;
  for (const auto name : link_names()) EXPECT_TRUE(link_preset(name)) << name;
  EXPECT_FALSE(data_network_preset("dgx"));
  EXPECT_FALSE(link_preset("alpha=1,beta=1"));
  EXPECT_EQ(link_preset("tcp")->bytes_per_us, 1'250);
}

}  // namespace
}  // namespace lockstep::worker::simulator::data_network_test
