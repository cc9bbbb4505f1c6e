#include "conformance.h"

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/collectives/simulated/simulated.h>

namespace lockstep::collectives::simulated_conformance_test {
namespace {

class SimulatedAdapter final : public Adapter {
 public:
  explicit SimulatedAdapter(int size) : network_({.size = size, .seed = 7}) {}
  [[nodiscard]] std::vector<Communicator*> ranks() override {
    std::vector<Communicator*> out;
    for (int r = 0; r < network_.size(); ++r) out.push_back(&network_.communicator(Rank{r}));
    return out;
  }
  void finish() override {
    for (Communicator* c : ranks()) ASSERT_TRUE(c->wait());
  }

 private:
  VirtualNetwork network_;
};

class FakeAdapter final : public Adapter {
 public:
  FakeAdapter(int self, int size) : mine_(fake_communicator(Rank{self}, size).value()) {}
  [[nodiscard]] std::vector<Communicator*> ranks() override { return {mine_.get()}; }
  void finish() override { ASSERT_TRUE(mine_->wait()); }
  [[nodiscard]] int poses_as(int self, int) const override { return self; }

 private:
  std::unique_ptr<Communicator> mine_;
};

auto simulated(int size) {
  return [size]() -> std::unique_ptr<Adapter> { return std::make_unique<SimulatedAdapter>(size); };
}
auto fake(int self, int size) {
  return [=]() -> std::unique_ptr<Adapter> { return std::make_unique<FakeAdapter>(self, size); };
}

INSTANTIATE_TEST_SUITE_P(Simulated, Conformance,
                         testing::Values(simulated(1), simulated(2), simulated(3), simulated(4),
                                         simulated(5), simulated(6), simulated(7), simulated(8),
                                         simulated(9), simulated(16)));
INSTANTIATE_TEST_SUITE_P(Fake, Conformance,
                         testing::Values(fake(0, 1), fake(0, 2), fake(2, 3), fake(4, 8)));

TEST(Fake, Name_SaysThatNothingIsExchanged) {
  EXPECT_EQ(fake_communicator(Rank{3}, 8).value()->name(),
            "fake rank 3 of 8 (nothing is exchanged)");
  EXPECT_EQ(fake_communicator(Rank{8}, 8).error().code, Code::BadInput);
}

TEST(Fake, AllToAll_PeersSendWhatThisRankSendsItself) {
  auto fake2of3 = fake_communicator(Rank{2}, 3).value();
  const std::int64_t send_rows[3] = {1, 0, 2}, receive_rows[3] = {2, 2, 2};
  const float send[3] = {7, 8, 9};
  float receive[6] = {};
  ASSERT_TRUE(fake2of3->run(Collective{.kind = Collective::Kind::AllToAll,
                                       .send = send,
                                       .receive = receive,
                                       .send_rows = send_rows,
                                       .receive_rows = receive_rows}));
  const std::vector<float> expected{8, 9, 8, 9, 8, 9};
  EXPECT_EQ(std::vector<float>(receive, receive + 6), expected);
  EXPECT_EQ(fake2of3
                ->run(Collective{.kind = Collective::Kind::AllToAll,
                                 .send = send,
                                 .receive = receive,
                                 .send_rows = send_rows,
                                 .receive_rows = send_rows})
                .error()
                .code,
            Code::Internal);
}

/// What `size` equal contributions come to, one after the other.
template <class T>
std::vector<T> added_up(const std::vector<T>& one, int size) {
  std::vector<T> sum(one.size(), T{0});
  for (int rank = 0; rank < size; ++rank)
    for (std::size_t i = 0; i < one.size(); ++i) sum[i] = static_cast<T>(sum[i] + one[i]);
  return sum;
}

TEST(Fake, Reductions_AreThoseOfEqualBuffers_WrappedWhereTheyWrap) {
  for (const auto& [self, size] : {std::pair{0, 2}, {5, 7}, {299, 300}}) {
    auto group = fake_communicator(Rank{self}, size).value();
    const std::vector<std::int8_t> bytes{1, -3, 127, -128, 0};
    std::vector<std::int8_t> byte_sums(bytes.size());
    ASSERT_TRUE(group->run(Collective{
        .dtype = DType::I8, .send = bytes.data(), .receive = byte_sums.data(), .rows = 5}));
    EXPECT_EQ(byte_sums, added_up(bytes, size));
    std::vector<double> shares;  // rank r's share is {r, r + 0.5}
    for (int r = 0; r < size; ++r) shares.insert(shares.end(), {r * 1.0, r + 0.5});
    std::vector<double> mine(2);
    ASSERT_TRUE(group->run(Collective{.kind = Collective::Kind::ReduceScatter,
                                      .dtype = DType::F64,
                                      .send = shares.data(),
                                      .receive = mine.data(),
                                      .rows = 2}));
    EXPECT_EQ(mine, added_up<double>({self * 1.0, self + 0.5}, size));
  }
}

TEST(Fake, MillionsOfRanks_TakeTheTimeOfOne) {
  constexpr int kSize = 1 << 24;
  auto group = fake_communicator(Rank{5'000'000}, kSize).value();
  const std::vector<std::int64_t> mine(1000, 3);
  std::vector<std::int64_t> sum(1000);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(group->run(
        Collective{.dtype = DType::I64, .send = mine.data(), .receive = sum.data(), .rows = 1000}));
  EXPECT_EQ(sum, std::vector<std::int64_t>(1000, std::int64_t{3} * kSize));
  VoteRound vote(group->rank(), kSize, Vote::of(6, 7, 8, 9));
  ASSERT_TRUE(group->run(vote));
  EXPECT_EQ(vote.result(), Vote::of(6, 7, 8, 9));
  std::size_t joins = 0;
  TreeRound tree(group->rank(), kSize, text_bytes("same"), [&](auto lower, auto higher) {
    ++joins;
    EXPECT_TRUE(std::equal(lower.begin(), lower.end(), higher.begin(), higher.end()));
    return Bytes(lower.begin(), lower.end());
  });
  ASSERT_TRUE(group->run(tree));
  EXPECT_EQ(tree.result(), text_bytes("same"));
  EXPECT_LE(joins, 2U);
}

}  // namespace
}  // namespace lockstep::collectives::simulated_conformance_test
