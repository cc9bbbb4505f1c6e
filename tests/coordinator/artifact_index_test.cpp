// What the artifact store keeps and what it lets go, against a list that is kept by hand.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/store/artifact_store.h>

namespace lockstep::coordinator::artifact_index_test {
namespace {

namespace fs = std::filesystem;

class ArtifactIndexTest : public testing::Test {
 protected:
  ArtifactIndexTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-index-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    seed_ = std::random_device{}();
    random_.seed(seed_);
    reopen();
  }
  ~ArtifactIndexTest() override { fs::remove_all(root_); }

  void reopen() {
    index_.reset();
    files_ = VerifiedDirectory::open(
                 {.path = root_.string(), .content = {"artifact", "", "", 1 << 20}, .report = {}})
                 .value();
    index_ = std::make_unique<ArtifactIndex>(
        root_.string(), *files_, [this](const Status& status) { told_.push_back(status.message); });
  }
  void store(const shapes::Fingerprint& key, std::size_t bytes, std::uint64_t limit,
             ArtifactIndex::Time now) {
    ASSERT_TRUE(files_->store(key, Bytes(bytes)));
    const auto stored = index_->stored(key, VerifiedDirectory::bytes_on_disk(bytes), limit, now);
    ASSERT_TRUE(stored) << stored.error().text();
  }
  [[nodiscard]] std::set<shapes::Fingerprint> there() const {
    std::set<shapes::Fingerprint> keys;
    for (const auto& file : files_->files()) keys.insert(file.key);
    return keys;
  }
  void damage_index() {
    const fs::path file = root_ / ArtifactIndex::kFile;
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    for (int n = 0; n < 400; ++n) {
      bytes.seekp(static_cast<std::streamoff>(random_() % fs::file_size(file)));
      bytes.put(static_cast<char>(random_()));
    }
  }

  fs::path root_;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::unique_ptr<VerifiedDirectory> files_;
  std::unique_ptr<ArtifactIndex> index_;
  std::vector<std::string> told_;
};

/// The rule itself: a list by last use.
class Model {
 public:
  void use(const shapes::Fingerprint& key, ArtifactIndex::Time now) {
    if (const auto it = kept_.find(key); it != kept_.end())
      it->second.used = std::max(it->second.used, now);
  }
  void store(const shapes::Fingerprint& key, std::uint64_t bytes, std::uint64_t limit,
             ArtifactIndex::Time now) {
    kept_[key] = {bytes, now};
    for (;;) {
      std::uint64_t total = 0;
      const std::pair<const shapes::Fingerprint, Artifact>* oldest = nullptr;
      for (const auto& entry : kept_) {
        total += entry.second.bytes;
        if (entry.first != key && (oldest == nullptr || entry.second.used < oldest->second.used))
          oldest = &entry;
      }
      if (total <= limit || oldest == nullptr) return;
      kept_.erase(shapes::Fingerprint(oldest->first));
    }
  }
  [[nodiscard]] std::set<shapes::Fingerprint> there() const {
    std::set<shapes::Fingerprint> keys;
    for (const auto& [key, artifact] : kept_) keys.insert(key);
    return keys;
  }

 private:
  struct Artifact {
    std::uint64_t bytes;
    ArtifactIndex::Time used;
  };
  std::map<shapes::Fingerprint, Artifact> kept_;
};

TEST_F(ArtifactIndexTest, RandomOperations_KeepWhatTheRuleSays) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  Model model;
  ArtifactIndex::Time now = 1'000'000'000'000'000'000;
  for (int step = 0; step < 1500; ++step) {
    const shapes::Fingerprint key{
        random_() % 3 == 0 ? ~std::uint64_t{0} - random_() % 5 : random_() % 10, random_() % 3};
    now += static_cast<ArtifactIndex::Time>(random_() % 3);  // some come at one moment
    switch (random_() % 6) {
      case 0:
      case 1: {
        const std::size_t bytes = random_() % 4000;
        const std::uint64_t limit = random_() % 8 == 0 ? 2000 : 12000;
        store(key, bytes, limit, now);
        model.store(key, VerifiedDirectory::bytes_on_disk(bytes), limit, now);
        break;
      }
      case 2:
        ASSERT_TRUE(index_->note_uses());
        break;
      case 3:
        if (random_() % 10 != 0) break;
        ASSERT_TRUE(index_->note_uses());
        reopen();
        break;
      default:
        if (files_->load(key).value()) index_->used(key, now);
        model.use(key, now);
    }
    ASSERT_EQ(there(), model.there()) << "step " << step;
  }
  EXPECT_TRUE(told_.empty());
}

TEST_F(ArtifactIndexTest, IndexThatIsLostOrDamaged_IsMadeFromTheFiles) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const std::uint64_t each = VerifiedDirectory::bytes_on_disk(100);
  for (const bool lost : {true, false})
    for (const bool underway : {true, false}) {
      for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry);
      told_.clear();
      reopen();
      for (std::uint64_t n = 0; n < 60; ++n) store({n, 0}, 100, 90 * each, 1 << 30);
      if (!underway) reopen();
      if (lost)
        fs::remove(root_ / ArtifactIndex::kFile);
      else
        damage_index();
      // As of when they were written: the first is the oldest.
      fs::last_write_time(root_ / shapes::Fingerprint{7, 0}.text(), fs::file_time_type::min());
      store({1000, 0}, 100, 60 * each, std::int64_t{1} << 60);
      EXPECT_EQ(there().size(), 60U);
      EXPECT_TRUE(there().contains({1000, 0}));
      if (lost) {
        EXPECT_FALSE(there().contains({7, 0})) << underway;
        EXPECT_TRUE(told_.empty());
      } else if (!underway) {
        ASSERT_EQ(told_.size(), 1U);
        EXPECT_NE(told_[0].find("it is made anew from the files"), std::string::npos) << told_[0];
      }
    }
}

TEST_F(ArtifactIndexTest, FilesOfAnotherWriter_AreCountedFromTheNextStart) {
  const std::uint64_t each = VerifiedDirectory::bytes_on_disk(100);
  store({1, 0}, 100, 10 * each, std::int64_t{1} << 61);
  for (std::uint64_t n = 10; n < 30; ++n) ASSERT_TRUE(files_->store({n, 0}, Bytes(100)));
  fs::remove(root_ / shapes::Fingerprint{1, 0}.text());
  reopen();
  store({2, 0}, 100, 10 * each, std::int64_t{1} << 61);
  EXPECT_EQ(there().size(), 10U);
}

/// The store as ranks use it.
class StoreLimit : public testing::Test {
 protected:
  StoreLimit() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-limit-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~StoreLimit() override { fs::remove_all(root_); }
  std::unique_ptr<ArtifactStore> open(std::uint64_t limit) {
    return ArtifactStore::open(
               {.directory = root_.string(),
                .report = [this](const Status& status) { told_.push_back(status.message); },
                .limit = limit})
        .value();
  }
  fs::path root_;
  std::vector<std::string> told_;
  const std::uint64_t each_ = VerifiedDirectory::bytes_on_disk(1000);
};

TEST_F(StoreLimit, WhatWasLoadedLast_Stays) {
  auto store = open(3 * each_);
  for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(store->store({n, 0}, Bytes(1000)));
  EXPECT_TRUE(open(3 * each_)->load({1, 0}).value()) << "noted when that store closes";
  ASSERT_TRUE(store->store({4, 0}, Bytes(1000)));
  EXPECT_FALSE(store->load({2, 0}).value()) << "a miss, and nothing else";
  for (const std::uint64_t n : {1, 3, 4}) EXPECT_TRUE(store->load({n, 0}).value()) << n;
  EXPECT_TRUE(told_.empty());
}

TEST_F(StoreLimit, OneThatIsLargerThanAll_StaysUntilTheNext) {
  auto store = open(100);
  ASSERT_TRUE(store->store({1, 0}, Bytes(1000)));
  EXPECT_TRUE(store->load({1, 0}).value());
  ASSERT_TRUE(store->store({2, 0}, Bytes(1000)));
  EXPECT_FALSE(store->load({1, 0}).value());
  EXPECT_TRUE(store->load({2, 0}).value());
}

TEST_F(StoreLimit, IndexThatCannotBeUsed_IsSaidOnceAndTheStoreGoesOn) {
  fs::create_directory(root_ / "index");
  fs::permissions(root_ / "index", fs::perms::owner_all);
  fs::create_directory(root_ / "index" / ArtifactIndex::kFile);
  auto store = open(10 * each_);
  for (std::uint64_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(store->store({n, 0}, Bytes(1000)));
    EXPECT_TRUE(store->load({n, 0}).value());
  }
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("not kept to a size"), std::string::npos) << told_[0];
}

// Processes that store, load and let go at the same time, and are killed: what is handed out is
// right or a miss, and the directory keeps to its size.
TEST_F(StoreLimit, ProcessesThatEvictEachOthers_SeeArtifactsOrMisses) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto content = [](std::uint64_t n) { return Bytes(1000, static_cast<std::byte>(n)); };
  for (int round = 0; round < 12; ++round) {
    std::vector<pid_t> children;
    for (std::uint64_t child = 0; child < 4; ++child) {
      const pid_t pid = ::fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        std::mt19937_64 own(seed + child + static_cast<std::uint64_t>(round) * 10);
        bool ok = true;
        auto store =
            ArtifactStore::open({root_.string(), [&](const Status&) { ok = false; }, 5 * each_});
        for (int step = 0; ok && step < 60; ++step) {
          const std::uint64_t n = own() % 12;
          if (own() % 2 == 0) ok = (*store)->store({n, 0}, content(n)).has_value();
          const auto got = (*store)->load({n, 0});
          ok = ok && got && (!*got || **got == content(n));
          (*store)->note_uses();
        }
        ::_exit(ok ? 0 : 1);
      }
      children.push_back(pid);
    }
    const bool kill = round % 2 == 0;
    if (kill) {
      ::usleep(static_cast<useconds_t>(random() % 60000));
      ::kill(children[random() % 4], SIGKILL);
    }
    for (const pid_t pid : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(status == 0 || (kill && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
          << "status " << status << " round " << round;
    }
    auto store = open(5 * each_);
    ASSERT_TRUE(store->store({99, 0}, content(99)));
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(root_))
      if (entry.path().filename().string().size() == 32) bytes += entry.file_size();
    EXPECT_LE(bytes, 5 * each_) << "round " << round;
  }
  EXPECT_TRUE(told_.empty()) << told_.front();
}

}  // namespace
}  // namespace lockstep::coordinator::artifact_index_test
