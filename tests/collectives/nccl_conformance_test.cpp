// The data half of the conformance suite over NCCL's data plane and the emulated NCCL.
#include "conformance.h"
#include "nccl_ranks.h"
#include <fmt/format.h>

namespace lockstep::collectives::nccl_conformance_test {
namespace {

/// One rank as the suite knows ranks; it has no control plane.
class NcclRank final : public Communicator {
 public:
  NcclRank(int rank, int size, DeviceData& data) : rank_(rank), size_(size), data_(data) {}
  [[nodiscard]] Rank rank() const override { return Rank{rank_}; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string name() const override { return data_.name(); }
  void start(Round&) override { ADD_FAILURE() << "no control plane"; }
  [[nodiscard]] Result<void> start(const Collective& c) override { return data_.start(c); }
  [[nodiscard]] Result<bool> poll() override { return true; }
  [[nodiscard]] Result<void> wait() override { return data_.poll(); }
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& c) override { return data_.start(c); }

 private:
  int rank_, size_;
  DeviceData& data_;
};

class NcclAdapter final : public Adapter {
 public:
  explicit NcclAdapter(int size) : data_(connect_ranks(size)) {
    for (std::size_t r = 0; r < data_.size(); ++r)
      ranks_.push_back(std::make_unique<NcclRank>(static_cast<int>(r), size, *data_[r]));
  }
  ~NcclAdapter() override { disconnect(data_); }
  [[nodiscard]] std::vector<Communicator*> ranks() override {
    std::vector<Communicator*> out;
    for (const auto& rank : ranks_) out.push_back(rank.get());
    return out;
  }
  void finish() override {
    ASSERT_TRUE(launches_end());
    for (const auto& rank : ranks_) ASSERT_TRUE(rank->wait());
  }
  [[nodiscard]] bool reduces(DType dtype) const override { return dtype != DType::I16; }
  [[nodiscard]] bool rounds_once() const override { return false; }

 private:
  std::vector<Connected> data_;
  std::vector<std::unique_ptr<NcclRank>> ranks_;
};

template <int Size>
std::unique_ptr<Adapter> adapter() {
  return std::make_unique<NcclAdapter>(Size);
}

INSTANTIATE_TEST_SUITE_P(Nccl, Conformance,
                         testing::Values(adapter<1>, adapter<2>, adapter<3>, adapter<4>, adapter<5>,
                                         adapter<6>, adapter<7>, adapter<8>),
                         [](const auto& p) { return fmt::format("n{}", p.index + 1); });

}  // namespace
}  // namespace lockstep::collectives::nccl_conformance_test
