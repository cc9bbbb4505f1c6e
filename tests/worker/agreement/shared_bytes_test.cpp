// Sharing what one rank has built, on real ranks with directories of their own.
#include <filesystem>

#include <gtest/gtest.h>
#include <lying_communicator.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agree/agreement/shared_bytes.h>

namespace lockstep::worker::shared_bytes_test {
namespace {

namespace fs = std::filesystem;

class SharedBytes : public testing::Test {
 protected:
  SharedBytes() : group_(std::move(collectives::mpi_communicator(nullptr, {}).value())) {
    rank_ = group_->rank().value, size_ = group_->size();
    char name[] = "/tmp/lockstep-bytes-XXXXXX";
    root_ = ::mkdtemp(name);
    report_ = [this](const Status& status) { said_.push_back(status.message); };
    open();
  }
  ~SharedBytes() override { fs::remove_all(root_); }

  void open() {
    artifacts_ =
        coordinator::ArtifactStore::open({(root_ / "artifacts").string(), report_}).value();
  }
  static Bytes text(std::size_t length) {
    Bytes out(length);
    for (std::size_t i = 0; i < length; ++i) out[i] = static_cast<std::byte>(i * 7);
    return out;
  }
  /// `mine` on the first rank only.
  Result<std::optional<Bytes>> share(std::string_view of, const std::optional<Bytes>& mine,
                                     collectives::Communicator* over = nullptr) {
    CallDriver driver(over != nullptr ? *over : *group_, {});
    RoundKey key;
    key.frame = "step";
    key.round = key.call = ++calls_;
    auto shared = share_bytes(
        driver, key, shapes::fingerprint(of), rank_ == 0 ? mine : std::optional<Bytes>(),
        {.artifacts = keeps_ ? artifacts_.get() : nullptr, .report = report_});
    exchanges_ = driver.times().exchanges;
    all_are_out_ = shared.has_error();
    if (!shared) return shared.error();
    if (shared->failure) return *shared->failure;
    return std::move(shared->bytes);
  }
  [[nodiscard]] std::optional<Bytes> kept(std::string_view of) {
    return artifacts_->load(shapes::fingerprint(of)).value();
  }

  std::unique_ptr<collectives::Communicator> group_;
  int rank_ = 0, size_ = 1;
  fs::path root_;
  std::function<void(const Status&)> report_;
  std::vector<std::string> said_;
  std::unique_ptr<coordinator::ArtifactStore> artifacts_;
  bool keeps_ = true;
  bool all_are_out_ = false;
  std::uint64_t calls_ = 0, exchanges_ = 0;
};

TEST_F(SharedBytes, EveryRankGetsTheFirstOnes_AndKeepsThem) {
  for (const std::size_t length : {1U, 1000U, 3000000U}) {
    const auto shared = share("step", text(length));
    ASSERT_TRUE(shared) << shared.error().message;
    EXPECT_EQ(*shared, text(length));
    EXPECT_EQ(kept("step"), text(length));
  }
  EXPECT_TRUE(said_.empty()) << said_.front();
}

TEST_F(SharedBytes, RanksThatHaveKeptThem_ReceiveNone) {
  ASSERT_TRUE(share("step", text(1000)));
  const std::uint64_t with_transfer = exchanges_;
  EXPECT_EQ(share("step", text(1000)).value(), text(1000));
  EXPECT_EQ(exchanges_, size_ == 1 ? with_transfer : with_transfer - 1);
  if (rank_ == size_ - 1) fs::remove_all(root_ / "artifacts"), open();
  EXPECT_EQ(share("step", text(1000)).value(), text(1000)) << "one rank has lost them";
  EXPECT_EQ(exchanges_, with_transfer);
}

TEST_F(SharedBytes, OthersThatARankHasKept_AreReplaced) {
  ASSERT_TRUE(artifacts_->store(shapes::fingerprint("step"), text(rank_ + 5U)));
  EXPECT_EQ(share("step", text(100)).value(), text(100));
  EXPECT_EQ(kept("step"), text(100));
}

TEST_F(SharedBytes, RanksThatNeedOthers_GetNone) {
  const bool other = rank_ == size_ - 1 && size_ > 1;
  const auto shared = share(other ? "another processor" : "step", text(100));
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(*shared, other ? std::optional<Bytes>() : text(100));
  EXPECT_FALSE(kept("another processor"));
}

TEST_F(SharedBytes, NothingToShare_IsNothingForAll) {
  const auto shared = share("step", std::nullopt);
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_FALSE(*shared);
  EXPECT_EQ(share("step", text(3)).value(), text(3));
}

TEST_F(SharedBytes, TooMuchToSend_IsSaidAndEveryRankBuilds) {
  const auto shared = share("step", Bytes(kLargestShared + 1));
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(shared->has_value(), rank_ == 0);
  EXPECT_EQ(said_.size(), rank_ == 0 && size_ > 1 ? 1U : 0U);
}

TEST_F(SharedBytes, WithoutADirectory_BytesAreSharedAllTheSame) {
  keeps_ = false;
  EXPECT_EQ(share("step", text(100)).value(), text(100));
  EXPECT_FALSE(kept("step"));
}

TEST_F(SharedBytes, OtherBytesOnTheWay_AreFoundBeforeAnyUse) {
  if (size_ == 1) return;
  LyingCommunicator lying(*group_);
  const auto shared = share("step", text(10000), rank_ == 0 ? &lying : nullptr);
  if (rank_ == 0) {
    ASSERT_TRUE(shared);
  } else {
    ASSERT_FALSE(shared);
    EXPECT_EQ(shared.error().code, Code::Environment);
    EXPECT_NE(shared.error().message.find("is not what it has built"), std::string::npos)
        << shared.error().message;
    EXPECT_FALSE(all_are_out_) << "it is this rank's own failure";
    EXPECT_FALSE(kept("step"));
  }
  EXPECT_EQ(share("step", text(10000)).value(), text(10000));
}

TEST_F(SharedBytes, RankInAnotherRound_IsNamed) {
  if (size_ == 1) return;
  const bool other = rank_ == size_ - 1;
  if (other) ++calls_;
  const auto shared = share("step", text(10));
  ASSERT_FALSE(shared);
  EXPECT_TRUE(all_are_out_);
  EXPECT_EQ(shared.error().code, Code::FrameMismatch);
  EXPECT_EQ(shared.error().groups.size(), 2U) << shared.error().message;
  for (const RankValue& value : shared.error().groups)
    EXPECT_EQ(value.value.find("sharing of what was built"), 0U) << value.value;
}

}  // namespace
}  // namespace lockstep::worker::shared_bytes_test
