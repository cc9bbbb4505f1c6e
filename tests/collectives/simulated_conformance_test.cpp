#include "conformance.h"

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/collectives/simulated/simulated.h>

namespace lockstep::collectives {
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

}  // namespace
}  // namespace lockstep::collectives
