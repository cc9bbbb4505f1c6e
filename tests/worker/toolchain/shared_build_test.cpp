// Building together on real ranks, with compilers that count, fail and differ. Units are made-up
// texts: what is built is the text itself, so every byte can be checked.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <lying_communicator.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/compile/toolchain/toolchain_key.h>

namespace lockstep::worker::shared_build_test {
namespace {

namespace fs = std::filesystem;
using Failure = std::function<std::optional<Status>(std::string_view text)>;

/// Builds a unit by taking its text for the object.
class CountingToolchain final : public Toolchain {
 public:
  CountingToolchain(std::string identity, Failure fails)
      : identity_(std::move(identity)), fails_(std::move(fails)) {}
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] BuildCost cost() const override { return {.compiles = compiles_}; }
  [[nodiscard]] Result<Bytes> build(std::string_view text) override {
    ++compiles_;
    if (auto failure = fails_(text)) return *failure;
    const auto bytes = std::as_bytes(std::span(text));
    return Bytes(bytes.begin(), bytes.end());
  }

 private:
  std::string identity_;
  Failure fails_;
  std::atomic<int> compiles_{0};
};

Status environment(const std::string& why) { return {Code::Environment, why, {}, {}}; }

class SharedBuild : public testing::Test {
 protected:
  SharedBuild() : group_(std::move(collectives::mpi_communicator(nullptr, {}).value())) {
    rank_ = group_->rank().value, size_ = group_->size();
    char name[] = "/tmp/lockstep-share-XXXXXX";
    root_ = ::mkdtemp(name);
    last_ = size_ - 1;
    tools_.report = [this](const Status& status) { said_.push_back(status.message); };
    compiler("cc 1");
  }
  ~SharedBuild() override { fs::remove_all(root_); }

  void compiler(
      const std::string& identity, Failure fails = [](auto) { return std::nullopt; }) {
    toolchain_ = std::make_unique<CountingToolchain>(identity, std::move(fails));
    tools_.toolchain = toolchain_.get();
    tools_.toolchain_key = toolchain_->fingerprint();
  }
  /// Every rank has a directory of its own, as on a host of its own.
  void open_store() {
    store_ =
        coordinator::ArtifactStore::open({(root_ / "artifacts").string(), tools_.report}).value();
    tools_.store = store_.get();
  }
  static Program program(int units, const std::string& name = "unit", std::size_t length = 100) {
    Program program;
    for (int u = 0; u < units; ++u) {
      std::string text = name + " " + std::to_string(u) + " ";
      text.resize(length, 'x');
      program.units.push_back(std::move(text));
    }
    return program;
  }
  SharedUnits build(const Result<Program>& program, collectives::Communicator* over = nullptr) {
    CallDriver driver(over != nullptr ? *over : *group_, {});
    RoundKey key;
    key.frame = "step";
    key.round = key.call = ++calls_;
    return build_together(driver, key, program, tools_);
  }
  /// All objects are there and are what the texts say.
  static void expect_built(const SharedUnits& made, const Program& program) {
    ASSERT_FALSE(made.failure) << made.failure->message;
    ASSERT_TRUE(made.objects);
    ASSERT_EQ(made.objects->size(), program.units.size());
    for (std::size_t u = 0; u < program.units.size(); ++u) {
      const Bytes& object = (*made.objects)[u];
      ASSERT_EQ(object.size(), program.units[u].size()) << u;
      EXPECT_EQ(std::memcmp(object.data(), program.units[u].data(), object.size()), 0) << u;
    }
  }
  [[nodiscard]] static int over_ranks(int mine, MPI_Op op = MPI_SUM) {
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, op, MPI_COMM_WORLD);
    return all;
  }
  [[nodiscard]] int compiles() const { return over_ranks(toolchain_->cost().compiles); }

  std::unique_ptr<collectives::Communicator> group_;
  int rank_ = 0, size_ = 1, last_ = 0;
  fs::path root_;
  std::unique_ptr<CountingToolchain> toolchain_;
  std::unique_ptr<coordinator::ArtifactStore> store_;
  BuildTools tools_;
  std::vector<std::string> said_;
  std::uint64_t calls_ = 0;
};

TEST_F(SharedBuild, SeparateStores_EveryUnitIsCompiledOnceInAll) {
  open_store();
  const Program p = program(7);
  const SharedUnits first = build(p);
  expect_built(first, p);
  EXPECT_EQ(compiles(), 7);
  EXPECT_EQ(first.built + first.received, 7);
  const SharedUnits second = build(p);
  expect_built(second, p);
  EXPECT_EQ(second.built + second.received, 0) << "what was received is in the rank's own store";
  EXPECT_EQ(compiles(), 7);
  EXPECT_TRUE(said_.empty()) << said_.front();
}

TEST_F(SharedBuild, NoStores_EveryUnitIsCompiledOnceInAll) {
  const Program p = program(5);
  expect_built(build(p), p);
  EXPECT_EQ(compiles(), 5);
}

TEST_F(SharedBuild, UnitsOfOneRank_AreBuiltSideBySide) {
  std::mutex noting;
  std::set<std::thread::id> builders;
  compiler("cc 1", [&](auto) {
    const std::scoped_lock lock(noting);
    builders.insert(std::this_thread::get_id());
    return std::nullopt;
  });
  int told = 0;
  tools_.building = [&](const std::string&) { ++told; };
  tools_.side_by_side = [](int count, const std::function<void(int)>& act) {
    std::vector<std::jthread> threads;
    for (int k = 0; k < count; ++k) threads.emplace_back(act, k);
  };
  const Program p = program(2 * size_);
  expect_built(build(p), p);
  EXPECT_EQ(builders.size(), 2U);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(compiles(), 2 * size_);
}

TEST_F(SharedBuild, SameObjectsEverywhere_CostOneVoteAndNoPayload) {
  open_store();
  const Program p = program(3);
  expect_built(build(p), p);
  CallDriver driver(*group_, {});
  expect_built(build_together(driver, {}, p, tools_), p);
  EXPECT_EQ(driver.times().votes, 1U);
  EXPECT_EQ(driver.times().exchanges, 0U);
}

TEST_F(SharedBuild, ProgramWithoutUnits_IsBuilt) { expect_built(build(program(0)), program(0)); }

TEST_F(SharedBuild, MoreUnitsThanAVoteHasBits_AreAllSent) {
  const Program p = program(150);
  expect_built(build(p), p);
  EXPECT_EQ(compiles(), 150);
}

TEST_F(SharedBuild, StoreThatIsLostOnOneRank_IsFilledByItsPeers) {
  if (size_ == 1) return;
  open_store();
  const Program p = program(4);
  expect_built(build(p), p);
  if (rank_ == last_)
    for (const auto& file : fs::directory_iterator(root_ / "artifacts")) fs::remove_all(file);
  const SharedUnits again = build(p);
  expect_built(again, p);
  EXPECT_EQ(again.received, rank_ == last_ ? 4 : 0);
  EXPECT_EQ(compiles(), 4);
}

TEST_F(SharedBuild, ArtifactThatIsDamagedOnOneRank_IsSetAsideAndSentAgain) {
  if (size_ == 1) return;
  open_store();
  const Program p = program(2);
  expect_built(build(p), p);
  const auto key = p.unit_key(1, tools_.toolchain_key);
  if (rank_ == last_) fs::resize_file(root_ / "artifacts" / key.text(), 50);
  expect_built(build(p), p);
  EXPECT_EQ(said_.size(), rank_ == last_ ? 1U : 0U);
  EXPECT_EQ(compiles(), 2);
  EXPECT_TRUE(store_->load(key).value()) << "it is whole again";
}

// As when two hosts built the same unit at different times and their compilers are not exact.
TEST_F(SharedBuild, OtherObjectUnderTheSameKey_IsReplacedByTheOneAgreedOn) {
  open_store();
  const Program p = program(1);
  const auto key = p.unit_key(0, tools_.toolchain_key);
  const std::string other = p.units[0] + (rank_ == 0 ? "" : " of another host");
  ASSERT_TRUE(store_->store(key, std::as_bytes(std::span(other))));
  expect_built(build(p), p);
  EXPECT_EQ(compiles(), 0);
  EXPECT_EQ(store_->load(key).value()->size(), p.units[0].size());
}

TEST_F(SharedBuild, StoreThatTakesNothing_IsToldAndTheBuildGoesOn) {
  open_store();
  if (rank_ == 0) fs::remove_all(root_ / "artifacts");
  const Program p = program(3);
  expect_built(build(p), p);
  EXPECT_EQ(compiles(), 3);
  EXPECT_EQ(said_.empty(), rank_ != 0);
}

// Another process may let any artifact go between two steps: here while units are being built, so
// after ranks have seen what they have, and again with every artifact that is stored.
TEST_F(SharedBuild, ArtifactsThatAreEvictedUnderway_AreBuiltOrSentAgain) {
  store_ = coordinator::ArtifactStore::open(
               {.directory = (root_ / "artifacts").string(), .report = tools_.report, .limit = 1})
               .value();
  tools_.store = store_.get();
  const auto evict = [&] {
    for (const auto& file : fs::directory_iterator(root_ / "artifacts"))
      if (file.path().filename().string().size() == 32) fs::remove(file);
  };
  compiler("cc 1", [&](auto) {
    evict();
    return std::nullopt;
  });
  for (int round = 0; round < 3; ++round) {
    const Program p = program(9);
    expect_built(build(p), p);
    if (rank_ == round % size_) evict();
  }
  EXPECT_TRUE(said_.empty()) << said_.front();
}

TEST_F(SharedBuild, CompilerThatDies_HandsItsUnitsToTheNextRank) {
  if (size_ == 1) return;
  if (rank_ == 0) compiler("cc 1", [](auto) { return environment("ended by signal 9"); });
  const Program p = program(6);
  const SharedUnits made = build(p);
  expect_built(made, p);
  EXPECT_EQ(over_ranks(made.built), 6);
  if (rank_ == 0) {
    EXPECT_EQ(made.built, 0);
    ASSERT_FALSE(said_.empty());
    EXPECT_NE(said_[0].find("to the other ranks: ended by signal 9"), std::string::npos)
        << said_[0];
  } else {
    EXPECT_TRUE(said_.empty());
  }
}

TEST_F(SharedBuild, CompilersThatFailAtDifferentUnits_StillBuildAll) {
  if (size_ == 1) return;
  // Every rank fails at the first text that it gets, except for the units of the last rank.
  int builds = 0;
  compiler("cc 1", [&](auto) -> std::optional<Status> {
    if (rank_ == last_ || builds++ > 0) return std::nullopt;
    return environment("no memory");
  });
  const Program p = program(size_ * 2);
  expect_built(build(p), p);
}

TEST_F(SharedBuild, AllCompilersFail_EveryRankHasItsReason) {
  compiler("cc 1", [&](std::string_view text) -> std::optional<Status> {
    if (text.find("unit 1") == text.npos) return std::nullopt;
    return environment("disk full on rank " + std::to_string(rank_));
  });
  const SharedUnits made = build(program(3));
  EXPECT_FALSE(made.objects);
  ASSERT_TRUE(made.failure) << "every rank tried";
  EXPECT_EQ(made.failure->code, Code::Environment);
  EXPECT_NE(made.failure->message.find("disk full on rank " + std::to_string(rank_)),
            std::string::npos);
  compiler("cc 1");
  const Program p = program(3);
  expect_built(build(p), p);
}

TEST_F(SharedBuild, RejectedText_EndsTheBuildWithoutAnotherTry) {
  compiler("cc 1", [](std::string_view text) -> std::optional<Status> {
    if (text.find("unit 1") == text.npos) return std::nullopt;
    return Status{Code::CompileError, "<stdin>:1:1: error", {}, {}};
  });
  const SharedUnits made = build(program(3));
  EXPECT_FALSE(made.objects);
  EXPECT_EQ(over_ranks(made.failure.has_value()), 1) << "the one that was dealt it";
  EXPECT_EQ(compiles(), 3) << "nobody tried a second time";
  if (made.failure) {
    EXPECT_EQ(made.failure->code, Code::CompileError);
  }
}

TEST_F(SharedBuild, ProgramThatOneRankCannotGenerate_StopsAll) {
  const Program p = program(2);
  const SharedUnits made =
      rank_ == last_ ? build(environment("no memory for the program")) : build(p);
  EXPECT_FALSE(made.objects);
  EXPECT_EQ(made.failure.has_value(), rank_ == last_);
  EXPECT_EQ(compiles(), 0);
  expect_built(build(p), p);
}

TEST_F(SharedBuild, RanksWithoutACompiler_TakeWhatOthersBuild) {
  if (size_ == 1) return;
  if (rank_ != last_) tools_.toolchain = nullptr, tools_.no_toolchain = environment("no c++");
  const Program p = program(4);
  const SharedUnits made = build(p);
  expect_built(made, p);
  EXPECT_EQ(made.built, rank_ == last_ ? 4 : 0);
}

TEST_F(SharedBuild, NoCompilerInTheGroup_IsTheEnvironment) {
  tools_.toolchain = nullptr, tools_.no_toolchain = environment("no c++");
  const SharedUnits made = build(program(1));
  ASSERT_TRUE(made.failure);
  EXPECT_EQ(made.failure->message, "no c++");
}

TEST_F(SharedBuild, RanksWithAnotherCompiler_HaveObjectsOfTheirOwn) {
  const bool old = rank_ % 2 == 1;
  compiler(old ? "cc 0" : "cc 1");
  open_store();
  const Program p = program(3);
  const SharedUnits made = build(p);
  expect_built(made, p);
  EXPECT_EQ(compiles(), size_ > 1 ? 6 : 3) << "once per kind of toolchain";
  expect_built(build(p), p);
  EXPECT_EQ(compiles(), size_ > 1 ? 6 : 3);
}

// Under shared_sizes every rank has a graph of its own.
TEST_F(SharedBuild, ProgramsThatDiffer_ShareTheUnitsThatTheyHaveInCommon) {
  Program p = program(2);
  p.units.push_back("of rank " + std::to_string(rank_));
  expect_built(build(p), p);
  EXPECT_EQ(compiles(), 2 + size_);
}

TEST_F(SharedBuild, ObjectThatIsTooLargeToSend_IsOneErrorThatSaysSo) {
  if (size_ == 1) return;
  tools_.largest = 1000;
  const SharedUnits made = build(program(1, "unit", 1001));
  ASSERT_TRUE(made.failure);
  EXPECT_NE(made.failure->message.find("1001 bytes, at most 1000"), std::string::npos)
      << made.failure->message;
  const Program p = program(1, "unit", 1000);
  expect_built(build(p), p);
}

TEST_F(SharedBuild, PeerThatSendsOtherBytes_IsFoundBeforeAnythingIsLoaded) {
  if (size_ == 1) return;
  const Program p = program(1, "unit", 10000);  // dealt to rank 0, which lies
  LyingCommunicator lying(*group_);
  open_store();
  const SharedUnits made = build(p, rank_ == 0 ? &lying : nullptr);
  if (rank_ == 0) {
    expect_built(made, p);
  } else {
    EXPECT_FALSE(made.objects);
    ASSERT_TRUE(made.failure);
    EXPECT_EQ(made.failure->code, Code::Environment);
    EXPECT_NE(made.failure->message.find("from rank 0 is not the one"), std::string::npos)
        << made.failure->message;
    EXPECT_FALSE(store_->load(p.unit_key(0, tools_.toolchain_key)).value()) << "nor kept";
  }
  expect_built(build(p), p);
}

class ToolchainKey : public SharedBuild {
 protected:
  Result<std::optional<shapes::Fingerprint>> agree(const Result<shapes::Fingerprint>& mine,
                                                   const std::string& processor,
                                                   bool needed = true) {
    CallDriver driver(*group_, {});
    auto found = agree_toolchain(driver, {}, mine, processor, needed);
    EXPECT_LE(driver.times().exchanges, 1U);
    return found;
  }
  const shapes::Fingerprint old_{1, 1}, new_{2, 2};
};

TEST_F(ToolchainKey, EveryRankWithACompiler_KeepsItsOwn) {
  const auto mine = rank_ % 2 == 0 ? old_ : new_;
  EXPECT_EQ(agree(mine, "x86").value(), mine);
}

TEST_F(ToolchainKey, RankWithoutOne_JoinsTheLowestRankWithItsProcessor) {
  if (size_ < 3) return;
  const auto found = rank_ == last_
                         ? agree(environment("no c++"), "new cpu")
                         : agree(rank_ == 0 ? old_ : new_, rank_ == 0 ? "old cpu" : "new cpu");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(*found, rank_ == 0 ? old_ : new_);
}

TEST_F(ToolchainKey, NoRankWithACompiler_IsAnErrorOnlyWhereOneIsNeeded) {
  const auto found = agree(environment("no c++"), "cpu", false);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(*found, std::nullopt);
  const auto asked_for = agree(environment("no such c++"), "cpu", rank_ == last_);
  ASSERT_FALSE(asked_for);
  EXPECT_EQ(asked_for.error().code, Code::Environment);
  const auto kinds = agree(rank_ == 0 ? Result<shapes::Fingerprint>(old_) : environment("no c++"),
                           rank_ == 0 ? "a cpu" : "another cpu", false);
  EXPECT_EQ(kinds.has_value(), size_ == 1) << "another processor has one";
}

TEST_F(ToolchainKey, RankWithAProcessorOfItsOwnOrAnUnknownOne_IsAnErrorOnAll) {
  for (const std::string processor : {"another cpu", ""}) {
    const auto found = rank_ == last_ ? agree(environment("no c++ there"), processor)
                                      : agree(old_, processor.empty() ? "" : "cpu");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::Environment);
    EXPECT_NE(found.error().message.find("rank " + std::to_string(last_) + " cannot build"),
              std::string::npos)
        << found.error().message;
    EXPECT_NE(found.error().message.find("no c++ there"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::worker::shared_build_test
