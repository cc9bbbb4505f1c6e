#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/coordinator/store/seal.h>

namespace lockstep::coordinator::artifact_store_test {
namespace {

namespace fs = std::filesystem;

class ArtifactStoreTest : public testing::Test {
 protected:
  ArtifactStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-store-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    directory_ = (root_ / "artifacts").string();
  }
  ~ArtifactStoreTest() override { fs::remove_all(root_); }

  std::unique_ptr<ArtifactStore> open() {
    auto store = ArtifactStore::open({.directory = directory_, .report = [this](const Status& s) {
                                        reports_.push_back(s.message);
                                      }});
    EXPECT_TRUE(store.has_value()) << (store ? "" : store.error().text());
    return std::move(store).value();
  }
  std::string file_of(const shapes::Fingerprint& key) const {
    return directory_ + "/" + key.text();
  }
  /// Files, but for the index.
  [[nodiscard]] std::ptrdiff_t artifacts() const {
    return std::count_if(fs::directory_iterator(directory_), fs::directory_iterator(),
                         [](const auto& entry) { return entry.is_regular_file(); });
  }
  static Bytes content(std::size_t size, unsigned seed = 1) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::byte>((i * 131 + seed) & 255);
    return bytes;
  }

  fs::path root_;
  std::string directory_;
  std::vector<std::string> reports_;
  const shapes::Fingerprint key_{0x1234, 0x5678};
};

TEST_F(ArtifactStoreTest, Load_Unknown_IsAMiss) {
  const auto got = open()->load(key_);
  ASSERT_TRUE(got.has_value());
  EXPECT_FALSE(got.value().has_value());
  EXPECT_TRUE(reports_.empty());
}

TEST_F(ArtifactStoreTest, Store_AnySize_ComesBack) {
  auto store = open();
  for (std::size_t size : {0u, 1u, 63u, 4096u, 100000u}) {
    ASSERT_TRUE(store->store(key_, content(size)).has_value());
    EXPECT_EQ(open()->load(key_).value().value(), content(size));
    EXPECT_EQ(fs::file_size(file_of(key_)), VerifiedDirectory::bytes_on_disk(size));
  }
  EXPECT_EQ(artifacts(), 1);
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
}

TEST_F(ArtifactStoreTest, Load_TruncatedAtEveryLength_MissReportedOnceAndRebuilt) {
  auto store = open();
  ASSERT_TRUE(store->store(key_, content(40)).has_value());
  const auto whole = fs::file_size(file_of(key_));
  for (std::uintmax_t length = 0; length < whole; ++length) {
    ASSERT_TRUE(store->store(key_, content(40)).has_value());
    fs::resize_file(file_of(key_), length);
    reports_.clear();
    EXPECT_FALSE(store->load(key_).value().has_value()) << length;
    EXPECT_FALSE(store->load(key_).value().has_value()) << length;
    EXPECT_EQ(reports_.size(), 1u) << length;
    EXPECT_TRUE(fs::exists(file_of(key_) + ".bad"));
  }
}

TEST_F(ArtifactStoreTest, Load_AnyBitFlipped_IsAMiss) {
  auto store = open();
  ASSERT_TRUE(store->store(key_, content(20)).has_value());
  const auto size = static_cast<std::streamoff>(fs::file_size(file_of(key_)));
  for (std::streamoff at = 0; at < size; ++at) {
    ASSERT_TRUE(store->store(key_, content(20)).has_value());
    {
      std::fstream file(file_of(key_), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const char c = static_cast<char>(file.get() ^ (1 << (at % 8)));
      file.seekp(at);
      file.put(c);
    }
    EXPECT_FALSE(store->load(key_).value().has_value()) << at;
  }
  EXPECT_EQ(reports_.size(), static_cast<std::size_t>(size));
}

TEST_F(ArtifactStoreTest, Load_FileOfTheFirstVersion_IsSetAsideAndBuiltAgain) {
  auto store = open();
  std::ofstream(file_of(key_)) << "\x7f"
                                  "ELF, and then the footer: lockstp1"
                               << std::string(56, 'x');
  EXPECT_FALSE(store->load(key_).value().has_value());
  EXPECT_EQ(reports_.size(), 1u);
  EXPECT_TRUE(fs::exists(file_of(key_) + ".bad"));
  ASSERT_TRUE(store->store(key_, content(20)).has_value());
  EXPECT_EQ(store->load(key_).value().value(), content(20));
}

TEST_F(ArtifactStoreTest, Load_FileOfAnotherKeyUnderThisName_IsAMiss) {
  auto store = open();
  const shapes::Fingerprint other{9, 9};
  ASSERT_TRUE(store->store(other, content(20)).has_value());
  fs::rename(file_of(other), file_of(key_));
  EXPECT_FALSE(store->load(key_).value().has_value());
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(ArtifactStoreTest, Load_SymbolicLink_IsNotFollowed) {
  auto store = open();
  const shapes::Fingerprint other{9, 9};
  ASSERT_TRUE(store->store(other, content(20)).has_value());
  fs::create_symlink(file_of(other), file_of(key_));
  EXPECT_FALSE(store->load(key_).value().has_value());
}

using FailureMode23 = ArtifactStoreTest;
TEST_F(FailureMode23, Store_ManyWritersAndReaders_NeverSeeHalfAnArtifact) {
  open();
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool damaged = false;
      auto store = ArtifactStore::open({directory_, [&](const Status& status) {
                                          std::fprintf(stderr, "%s\n", status.message.c_str());
                                          damaged = true;
                                        }});
      bool ok = store.has_value();
      for (unsigned round = 0; ok && round < 40; ++round) {
        const shapes::Fingerprint key{round % 3, 0};
        ok = store.value()->store(key, content(20000, round % 3)).has_value();
        const auto got = store.value()->load(key);
        ok = ok && got.has_value() && got.value() == content(20000, round % 3) && !damaged;
      }
      ::_exit(ok ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(artifacts(), 3);
}

TEST_F(ArtifactStoreTest, Open_LeftoversOfDeadWriter_AreRemovedLivingOnesKept) {
  open();
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string tail = std::string(".0.") + host;
  const std::string stale = directory_ + "/tmp." + std::to_string(dead) + tail;
  const std::string live = directory_ + "/tmp." + std::to_string(::getppid()) + tail;
  const std::string foreign = directory_ + "/tmp.1.0.elsewhere.example";
  for (const auto& name : {stale, live, foreign}) std::ofstream(name) << "half";
  open();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(live));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST_F(ArtifactStoreTest, Open_DirectoryOpenToOthers_IsRefused) {
  open();
  ::chmod(directory_.c_str(), 0755);
  const auto store = ArtifactStore::open({directory_, {}});
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, Code::Environment);
  EXPECT_NE(store.error().message.find("chmod 700"), std::string::npos);
}

TEST_F(ArtifactStoreTest, Open_SymbolicLinkOrFileOrNoParent_IsRefused) {
  fs::create_directory(root_ / "real");
  fs::create_symlink(root_ / "real", root_ / "link");
  std::ofstream(root_ / "file") << "x";
  for (const char* name : {"link", "file", "no/parent"}) {
    const auto store = ArtifactStore::open({(root_ / name).string(), {}});
    ASSERT_FALSE(store.has_value()) << name;
    EXPECT_EQ(store.error().code, Code::Environment);
  }
}

TEST_F(ArtifactStoreTest, Store_DirectoryGone_IsEnvironment) {
  auto store = open();
  fs::remove_all(directory_);
  const auto stored = store->store(key_, content(10));
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().code, Code::Environment);
}

TEST_F(ArtifactStoreTest, Store_FileSizeLimit_IsEnvironmentAndKeepsWhatWasThere) {
  ASSERT_TRUE(open()->store(key_, content(100)).has_value());
  const pid_t pid = ::fork();
  if (pid == 0) {
    // A file size limit stands for a full disk: write() fails after a part.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto store = ArtifactStore::open({directory_, {}});
    const auto stored = store.value()->store(key_, content(50000));
    ::_exit(!stored.has_value() && stored.error().code == Code::Environment ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(open()->load(key_).value().value(), content(100));
  EXPECT_EQ(artifacts(), 1);
}

TEST(ContentDigest, EmptyText_IsTheKnownSha256) {
  EXPECT_EQ(content_digest({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace lockstep::coordinator::artifact_store_test
