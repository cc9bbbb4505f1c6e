// The latency-bandwidth model, its presets and its files.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/worker/simulator/cost/network_file.h>
#include <lockstep/worker/simulator/cost/network_model.h>
#include <lockstep/worker/simulator/cost/timing.h>

namespace lockstep::worker::simulator::network_model_test {
namespace {

TEST(NetworkModel, Presets_CostWhatTheirFiguresSay) {
  const auto rdma = parse_network("rdma", "");
  ASSERT_TRUE(rdma);
  EXPECT_EQ(rdma->message_ns(Rank{0}, Rank{1}, 4096), 1500 + 328);  // 4096 B at 12.5 GB/s
  const auto tcp = parse_network("tcp", "");
  EXPECT_EQ(tcp->message_ns(Rank{3}, Rank{0}, 16), 25'000 + 13);
  EXPECT_EQ(tcp->busy_ns(Rank{3}, Rank{0}, 1250), 1000);
  ASSERT_TRUE(parse_network("shm", ""));
}

TEST(NetworkModel, OwnValues_AreMicrosecondsAndGigabytesASecond) {
  const auto own = parse_network("alpha=2.5,beta=0.5", "");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->message_ns(Rank{0}, Rank{1}, 1000), 2500 + 2000);
  EXPECT_EQ(parse_network("beta=0.5,alpha=2.5", "")->between, own->between);
}

TEST(NetworkModel, WhatIsNoNetwork_IsRefusedInOneSentence) {
  for (const char* text :
       {"", "token-ring", "alpha=1", "alpha=1,beta", "alpha=1,beta=0", "alpha=-1,beta=1",
        "alpha=1,beta=nan", "alpha=1,beta=1,alpha=2", "alpha=1,gamma=2", "alpha=1,beta=1x",
        "alpha=1e3,beta=1", "../rdma", "alpha=,beta="}) {
    const auto network = parse_network(text, "/nonexistent");
    ASSERT_FALSE(network) << text;
    EXPECT_EQ(network.error().code, Code::BadInput);
    EXPECT_EQ(network.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(network.error().message.back(), '.');
  }
}

TEST(NetworkModel, RanksOnOneHost_HaveItsLink) {
  const NetworkModel model{.name = "two",
                           .between = {.latency_ns = 100, .bytes_per_us = 1000},
                           .within = {.latency_ns = 7, .bytes_per_us = 0},
                           .ranks_per_host = 4};
  EXPECT_EQ(model.message_ns(Rank{0}, Rank{3}, 50), 7);
  EXPECT_EQ(model.message_ns(Rank{3}, Rank{4}, 50), 150);
}

TEST(NetworkModel, MoreRanksThanCores_AreBetweenTheCrowdsThatAreKnown) {
  const NetworkModel model{.name = "two cores",
                           .between = {},
                           .within = {.latency_ns = 500, .bytes_per_us = 0},
                           .ranks_per_host = 64,
                           .cores_per_host = 2,
                           .join_bytes_per_us = 800,
                           .read_bytes_per_us = 1000,
                           .crowds = {{4, 2500, 600}, {8, 6500, 200}}};
  EXPECT_EQ(model.in_world(2), model);
  EXPECT_EQ(model.in_world(3).within.latency_ns, 1500);
  EXPECT_EQ(model.in_world(4).within.latency_ns, 2500);
  EXPECT_EQ(model.in_world(5).within.latency_ns, 3500);
  EXPECT_EQ(model.in_world(6).read_bytes_per_us, 400);
  EXPECT_EQ(model.in_world(16).within.latency_ns, 13'000);
  EXPECT_EQ(model.in_world(1000).read_bytes_per_us, 25);
  EXPECT_EQ(model.in_world(8).in_world(8), model.in_world(8));
}

TEST(NetworkModel, LongTransfers_AreCappedNotWrapped) {
  EXPECT_EQ(transfer_ns(UINT64_MAX, 1), kLongest);
  EXPECT_EQ(transfer_ns(UINT64_MAX, 0), 0);
  EXPECT_EQ(transfer_ns(0, 5), 0);
  EXPECT_EQ(transfer_ns(1, 3000), 1);
}

const NetworkModel kModel{.name = "mine",
                          .between = {.latency_ns = 612, .bytes_per_us = 8111},
                          .within = {.latency_ns = 612, .bytes_per_us = 8111},
                          .ranks_per_host = INT32_MAX,
                          .cores_per_host = 2,
                          .join_bytes_per_us = 12'000,
                          .read_bytes_per_us = 2000,
                          .crowds = {{4, 3100, 900}, {16, 9000, 150}}};

class NetworkFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep_network_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const Bytes& bytes) const {
    std::ofstream(network_file("mine", folder_), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  std::string folder_;
};

TEST_F(NetworkFile, WhatIsStored_IsReadAgain) {
  write(network_bytes(kModel));
  const auto read = parse_network("mine", folder_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, kModel);
}

TEST_F(NetworkFile, WhatWasAlteredOrNoCalibrationComesTo_IsNamedWithItsPath) {
  const auto refused = [&] {
    const auto read = parse_network("mine", folder_);
    return !read && read.error().message.find(network_file("mine", folder_)) != std::string::npos;
  };
  const Bytes whole = network_bytes(kModel);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_TRUE(refused()) << "cut at " << size;
    Bytes altered = whole;
    altered[size] ^= std::byte{4};
    write(altered);
    EXPECT_TRUE(refused()) << "altered at " << size;
  }
  for (const auto& change : std::vector<void (*)(NetworkModel&)>{
           [](NetworkModel& n) { n.within.latency_ns = -1; },
           [](NetworkModel& n) { n.between.bytes_per_us = 0; },
           [](NetworkModel& n) { n.cores_per_host = 0; },
           [](NetworkModel& n) { n.read_bytes_per_us = 2'000'000'000; },
           [](NetworkModel& n) { n.crowds[1].ranks = 4; }}) {
    NetworkModel model = kModel;
    change(model);
    write(network_bytes(model));
    EXPECT_TRUE(refused());
  }
}

TEST_F(NetworkFile, FileOfTheFirstVersion_IsSaidToBeOne) {
  std::ofstream(folder_ + "/mine.json") << R"({"format":"lockstep.network/1"})";
  const auto read = parse_network("mine", folder_);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("it is of version 1"), std::string::npos)
      << read.error().message;
  write(network_bytes(kModel));
  EXPECT_TRUE(parse_network("mine", folder_));
}

TEST(Timing, Percentiles_AreNearestRanks) {
  std::vector<std::int64_t> times;
  EXPECT_EQ(percentiles(times), Percentiles{});
  for (std::int64_t i = 200; i > 0; --i) times.push_back(i);
  EXPECT_EQ(percentiles(times), (Percentiles{100, 180, 198, 200}));
  times = {5};
  EXPECT_EQ(percentiles(times), (Percentiles{5, 5, 5, 5}));
  times = {9, 1, 5};
  EXPECT_EQ(percentiles(times), (Percentiles{5, 9, 9, 9}));
}

}  // namespace
}  // namespace lockstep::worker::simulator::network_model_test
