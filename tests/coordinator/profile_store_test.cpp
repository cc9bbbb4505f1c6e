#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/profile_store.h>

namespace lockstep::coordinator {
namespace {

namespace fs = std::filesystem;
using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

Dynamism tensor(std::vector<std::int64_t> sizes) {
  return Dynamism::of_tensor(sizes, shapes::contiguous_strides(sizes));
}

/// As a run comes to it: joins of random observations.
Profile random_profile(std::mt19937_64& random) {
  Profile profile;
  for (int source = 0; source < 6; ++source) {
    Dynamism seen;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      std::vector<std::int64_t> sizes;
      for (std::uint64_t dims = random() % 4; dims > 0; --dims)
        sizes.push_back(static_cast<std::int64_t>(random() % 3));
      seen = join(seen, random() % 4 == 0
                            ? Dynamism::of_int(static_cast<std::int64_t>(random() % 5) - 2)
                            : tensor(sizes));
    }
    profile["source " + std::to_string(source)] = {{random(), random()}, seen};
  }
  return profile;
}

class ProfileStoreTest : public testing::Test {
 protected:
  ProfileStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-profiles-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    directory_ = root_ / "profiles";
    profile_["x"] = {{1, 2}, join(tensor({4, 8}), tensor({5, 8}))};
    profile_["n"] = {{3, 4}, Dynamism::of_int(-7)};
  }
  ~ProfileStoreTest() override { fs::remove_all(root_); }

  std::unique_ptr<ProfileStore> open(const std::string& job_id = "job 1") {
    return ProfileStore::open({.directory = directory_.string(),
                               .job_id = job_id,
                               .report = [this](const Status& s) { told_.push_back(s.message); }})
        .value();
  }
  /// The only file.
  [[nodiscard]] fs::path file() const { return fs::directory_iterator(directory_)->path(); }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(directory_), fs::directory_iterator());
  }

  fs::path root_, directory_;
  std::vector<std::string> told_;
  Profile profile_;
  const FrameKey frame_{"train_step", {}};
};

TEST_F(ProfileStoreTest, Profile_ComesBackInAnotherProcess) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const Profile profile = random_profile(random);
    ASSERT_TRUE(open()->store(frame_, profile));
    EXPECT_EQ(open()->load(frame_).value(), profile);
  }
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(told_.empty());
}

TEST_F(ProfileStoreTest, AnotherJobFrameOrContent_StartsWithNothing) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  EXPECT_TRUE(open("job 2")->load(frame_).value().empty());
  EXPECT_TRUE(open()->load({"evaluate", {}}).value().empty());
  EXPECT_TRUE(open()->load({"train_step", {0, 1}}).value().empty());
  EXPECT_EQ(open()->load(frame_).value(), profile_);
}

TEST_F(ProfileStoreTest, SameProfile_IsNotWrittenAgain) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(file().c_str(), &before), 0);
  ASSERT_TRUE(open()->store(frame_, profile_));
  ASSERT_EQ(::stat(file().c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(ProfileStoreTest, FileCutAtAnyLength_IsSetAsideOnceAndCountsAsNothing) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  const fs::path name = file();
  const auto whole = fs::file_size(name);
  for (std::uintmax_t length = 0; length < whole; length += 7) {
    ASSERT_TRUE(open()->store(frame_, profile_));
    fs::resize_file(name, length);
    told_.clear();
    auto store = open();
    EXPECT_TRUE(store->load(frame_).value().empty()) << length;
    EXPECT_TRUE(store->load(frame_).value().empty()) << length;
    EXPECT_EQ(told_.size(), 1U) << length;
    EXPECT_TRUE(fs::exists(name.string() + ".bad"));
  }
}

TEST_F(ProfileStoreTest, AnyBitFlipped_IsSetAside) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  const fs::path name = file();
  const auto size = static_cast<std::streamoff>(fs::file_size(name));
  for (std::streamoff at = 0; at < size; ++at) {
    ASSERT_TRUE(open()->store(frame_, profile_));
    {
      std::fstream bytes(name, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(at);
      const char c = static_cast<char>(bytes.get() ^ (1 << (at % 8)));
      bytes.seekp(at);
      bytes.put(c);
    }
    EXPECT_TRUE(open()->load(frame_).value().empty()) << at;
  }
  EXPECT_EQ(told_.size(), static_cast<std::size_t>(size));
}

// A whole file, with a right checksum, of a version that this program does not read.
TEST_F(ProfileStoreTest, FileOfAnotherVersion_IsSetAsideAndSaid) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  const auto key = file().filename().string();
  fs::remove(file());
  auto later = VerifiedDirectory::open({.path = directory_.string(),
                                        .content = {"lockspf2", "profile", "", "", 1 << 20},
                                        .report = {}})
                   .value();
  const shapes::Fingerprint name{std::stoull(key.substr(0, 16), nullptr, 16),
                                 std::stoull(key.substr(16), nullptr, 16)};
  ASSERT_TRUE(later->store(name, Bytes(100)));
  EXPECT_TRUE(open()->load(frame_).value().empty());
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("not of this format"), std::string::npos) << told_[0];
  EXPECT_TRUE(fs::exists(directory_ / (key + ".bad")));
}

// The checksum is right, so only the values themselves tell.
TEST_F(ProfileStoreTest, ValuesThatNoRunCanHaveSeen_AreRefused) {
  const auto refused = [](const Dynamism& seen) { return !plausible(seen); };
  Dynamism d = tensor({4, 8});
  EXPECT_FALSE(refused(d));
  d.size.dims[0].value = -1;
  EXPECT_TRUE(refused(d)) << "a negative size";
  d = tensor({4, 8});
  d.smallest[1] = -3;
  EXPECT_TRUE(refused(d)) << "a negative smallest size";
  d = tensor({4, 8});
  d.smallest[1] = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(refused(d)) << "never seen";
  d.stride.state = SeenDims::State::Tuple;
  d.stride.dims = {Seen::inferred(1), Seen::constant(1)};
  EXPECT_FALSE(refused(d));
  d.stride.dims[0] = Seen::inferred(2);
  EXPECT_TRUE(refused(d)) << "inferred from a dim that is not there";
  d = tensor({4, 8});
  d.size.dims[0] = Seen::inferred(0);
  EXPECT_TRUE(refused(d)) << "a size is never inferred";
  d = tensor({4, 8});
  d.size.dims[0] = {Seen::State::Dynamic, 5};
  EXPECT_TRUE(refused(d)) << "two spellings of one value";
  d = tensor({4, 8});
  d.size.state = static_cast<SeenDims::State>(9);
  EXPECT_TRUE(refused(d));
  d = tensor({4, 8});
  d.scalar.state = static_cast<Seen::State>(9);
  EXPECT_TRUE(refused(d));
  EXPECT_TRUE(refused(tensor(std::vector<std::int64_t>(17, 2)))) << "more dims than there can be";
  Profile bad = profile_;
  bad["x"].seen.smallest[0] = -1;
  EXPECT_FALSE(decode_profile(encode(bad)));
  EXPECT_TRUE(decode_profile(encode(profile_)));
  ASSERT_TRUE(open()->store(frame_, bad));
  EXPECT_EQ(open()->load(frame_).value().count("x"), 0U) << "nor is it kept";
  EXPECT_EQ(open()->load(frame_).value().count("n"), 1U);
}

TEST_F(ProfileStoreTest, RandomBytes_AreNoProfile) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = encode(random_profile(random));
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    const auto decoded = decode_profile(bytes);
    if (decoded) {
      for (const auto& [name, source] : *decoded) EXPECT_TRUE(plausible(source.seen));
      EXPECT_EQ(encode(*decoded), bytes) << "what is read has one spelling";
    }
  }
}

TEST_F(ProfileStoreTest, ProfileThatIsTooLarge_IsNotKeptAndNotRead) {
  Profile large;
  for (int source = 0; source < 20000; ++source)
    large["source " + std::to_string(source)] = {{}, Dynamism::of_int(1)};
  auto store = open();
  ASSERT_TRUE(store->store(frame_, profile_));
  const auto stored = store->store(frame_, large);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Code::Environment);
  EXPECT_EQ(store->load(frame_).value(), profile_);
  fs::resize_file(file(), ProfileStore::kLargest + 1000);
  EXPECT_TRUE(store->load(frame_).value().empty());
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("at most"), std::string::npos) << told_[0];
}

TEST_F(ProfileStoreTest, DirectoryOpenToOthersOrALink_IsRefused) {
  open();
  ::chmod(directory_.c_str(), 0755);
  const auto store = ProfileStore::open({directory_.string(), "job 1", {}});
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("chmod 700"), std::string::npos);
  fs::create_symlink(directory_, root_ / "link");
  EXPECT_FALSE(ProfileStore::open({(root_ / "link").string(), "job 1", {}}));
}

TEST_F(ProfileStoreTest, Identity_IsThatOfTheDirectory) {
  const auto one = open(), same = open("job 2");
  const auto other = ProfileStore::open({(root_ / "other").string(), "job 1", {}}).value();
  EXPECT_EQ(one->identity(), same->identity());
  EXPECT_NE(one->identity(), other->identity());
}

// Writers that are killed at any moment leave one whole profile or another, never a broken one.
TEST_F(ProfileStoreTest, KilledWriters_NeverLeaveABrokenProfile) {
  Profile other = profile_;
  other["x"].seen = tensor({1, 1});
  for (int i = 0; i < 200; ++i) other["y" + std::to_string(i)] = {{7, 7}, tensor({2, 2, 2})};
  ASSERT_TRUE(open()->store(frame_, profile_));
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto store = ProfileStore::open({directory_.string(), "job 1", {}});
      for (;;) {
        (void)(*store)->store(frame_, other);
        (void)(*store)->store(frame_, profile_);
      }
    }
    ::usleep(static_cast<useconds_t>(random() % 20000));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const Profile got = open()->load(frame_).value();
    EXPECT_TRUE(got == profile_ || got == other) << got.size();
  }
  EXPECT_TRUE(told_.empty()) << told_.front();
  open();
  EXPECT_EQ(files(), 1) << "leftovers of dead writers are gone";
}

}  // namespace
}  // namespace lockstep::coordinator
