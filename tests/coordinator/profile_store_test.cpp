#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "sql.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/store/profile_store.h>
#include <lockstep/coordinator/store/verified_directory.h>

namespace lockstep::coordinator::profile_store_test {
namespace {

namespace fs = std::filesystem;
using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

Dynamism tensor(std::vector<std::int64_t> sizes) { return Dynamism::of_tensor(sizes); }

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
  [[nodiscard]] fs::path file() const { return directory_ / ProfileStore::kFile; }
  [[nodiscard]] static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// What the store says, read anew.
  [[nodiscard]] std::string told() const { return told_.empty() ? "" : told_.front(); }

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
  EXPECT_EQ(open()->all().value().size(), 1U);
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

TEST_F(ProfileStoreTest, All_AreThoseOfTheJob) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  ASSERT_TRUE(open()->store({"evaluate", {1, 2}}, profile_));
  ASSERT_TRUE(open("job 2")->store({"other", {}}, profile_));
  const auto all = open()->all().value();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].first.name, "evaluate");
  EXPECT_EQ(all[0].first.content, (shapes::Fingerprint{1, 2}));
  EXPECT_EQ(all[1].first.name, "train_step");
  EXPECT_EQ(all[1].second, profile_);
}

TEST_F(ProfileStoreTest, SameProfile_IsNotWrittenAgain) {
  auto store = open();
  ASSERT_TRUE(store->store(frame_, profile_));
  const std::string before = bytes_of(file()) + bytes_of(file().string() + "-wal");
  ASSERT_TRUE(store->store(frame_, profile_));
  EXPECT_EQ(bytes_of(file()) + bytes_of(file().string() + "-wal"), before);
}

TEST_F(ProfileStoreTest, FileCutAtAnyLength_IsSetAsideOnceAndCountsAsNothing) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  const auto whole = bytes_of(file());
  int nothing = 0;
  for (std::size_t length = 1; length < whole.size(); length += 1 + length / 3) {
    for (const auto& entry : fs::directory_iterator(directory_)) fs::remove(entry);
    ASSERT_TRUE(open()->store(frame_, profile_));
    fs::resize_file(file(), length);
    told_.clear();
    auto store = open();
    const Profile got = store->load(frame_).value();
    if (got == profile_) continue;  // nothing was behind it
    EXPECT_TRUE(got.empty()) << length;
    EXPECT_TRUE(store->load(frame_).value().empty()) << length;
    EXPECT_EQ(told_.size(), 1U) << length;
    EXPECT_TRUE(fs::exists(file().string() + ".bad"));
    EXPECT_TRUE(store->store(frame_, profile_)) << "and it goes on";
    ++nothing;
  }
  EXPECT_GT(nothing, 10);
}

// What is read is what was written, or nothing: also where SQLite sees no flaw.
TEST_F(ProfileStoreTest, AnyBitFlipped_NeverGivesAnotherProfile) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  const std::string whole = bytes_of(file());
  int nothing = 0, in_row = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 100 ? 1 : 13) {
    for (const auto& entry : fs::directory_iterator(directory_)) fs::remove(entry);
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ (1 << (at % 8)));
    std::ofstream(file(), std::ios::binary) << altered;
    ::chmod(file().c_str(), 0600);
    told_.clear();
    auto store = ProfileStore::open(
        {.directory = directory_.string(), .job_id = "job 1", .report = [this](const Status& s) {
           told_.push_back(s.message);
         }});
    if (!store) {
      EXPECT_EQ(store.error().code, Code::Version) << at << " " << store.error().text();
      continue;
    }
    const Profile got = (*store)->load(frame_).value();
    if (got == profile_) continue;
    EXPECT_TRUE(got.empty()) << at;
    ++nothing;
    in_row += told().find("the profile of train_step in ") == 0;
    EXPECT_LE(told_.size(), 1U) << at;
  }
  EXPECT_GT(nothing, 5);
  EXPECT_GT(in_row, 0) << "one of the flips was in the payload";
}

TEST_F(ProfileStoreTest, DatabaseOfALaterVersion_IsRefusedAndLeftAsItIs) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  run_sql(file(), "PRAGMA user_version = 3");
  const std::string before = bytes_of(file());
  const auto store = ProfileStore::open({directory_.string(), "job 1", {}});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::Version);
  EXPECT_EQ(bytes_of(file()), before);
}

TEST_F(ProfileStoreTest, RowThatWasAltered_IsSetAsideAndSaidOnce) {
  // The byte after 16 of a seal is its version's.
  for (const auto& [change, why] : std::vector<std::pair<std::string, std::string>>{
           {"cast(payload || x'00' AS BLOB)", "bytes follow its seal"},
           {"cast(substr(payload, 1, 16) || x'03' || substr(payload, 18) AS BLOB)",
            "it is of version 3, this program reads 2"},
           {"(SELECT payload FROM profile WHERE written = 2)", "it is of another job or frame"},
           {"zeroblob(2000000)", "it has 2000000 bytes"}}) {
    ASSERT_TRUE(open()->store(frame_, profile_));
    ASSERT_TRUE(open()->store({"evaluate", {}}, profile_));
    run_sql(file(), "UPDATE profile SET payload = " + change + " WHERE written = 1");
    told_.clear();
    EXPECT_TRUE(open()->load(frame_).value().empty()) << change;
    EXPECT_TRUE(open()->load(frame_).value().empty());
    ASSERT_EQ(told_.size(), 1U) << change;
    EXPECT_NE(told_[0].find(why), std::string::npos) << told_[0];
    EXPECT_NE(told_[0].find("it was set aside and the job learns it again"), std::string::npos)
        << told_[0];
    EXPECT_EQ(open()->load({"evaluate", {}}).value(), profile_) << "the others stay";
    fs::remove(file());
  }
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
  d = tensor({4, 8});
  d.size.dims[0] = {static_cast<Seen::State>(2), 0};
  EXPECT_TRUE(refused(d)) << "a stride of version 1";
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
  EXPECT_FALSE(decode_profile(encode({"job 1", frame_, bad})));
  EXPECT_TRUE(decode_profile(encode({"job 1", frame_, profile_})));
  ASSERT_TRUE(open()->store(frame_, bad));
  EXPECT_EQ(open()->load(frame_).value().count("x"), 0U) << "nor is it kept";
  EXPECT_EQ(open()->load(frame_).value().count("n"), 1U);
}

// Its rows have no seals: they count as nothing, nobody is told, and jobs learn them again.
TEST_F(ProfileStoreTest, DatabaseOfTheFirstVersion_IsBroughtToThisOneWithoutItsProfiles) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  run_sql(file(),
          "ALTER TABLE profile ADD COLUMN sha256 TEXT NOT NULL DEFAULT 'abc'; "
          "UPDATE profile SET payload = x'0100000000'; PRAGMA user_version = 1");
  EXPECT_TRUE(open()->load(frame_).value().empty());
  EXPECT_TRUE(open()->all().value().empty());
  EXPECT_TRUE(told_.empty()) << told_.front();
  ASSERT_TRUE(open()->store(frame_, profile_));
  EXPECT_EQ(open()->load(frame_).value(), profile_);
}

TEST_F(ProfileStoreTest, ProfileThatIsTooLarge_IsNotKept) {
  Profile large;
  for (int source = 0; source < 30000; ++source)
    large["source " + std::to_string(source)] = {{}, Dynamism::of_int(1)};
  auto store = open();
  ASSERT_TRUE(store->store(frame_, profile_));
  const auto stored = store->store(frame_, large);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Code::Environment);
  EXPECT_EQ(store->load(frame_).value(), profile_);
}

TEST_F(ProfileStoreTest, MoreThanAreKept_LosesThoseWrittenLongestAgo) {
  ASSERT_TRUE(open()->store(frame_, profile_));
  run_sql(file(),
          "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 4096) INSERT "
          "INTO profile SELECT cast(i AS BLOB), 'j', x'00', i FROM n");
  ASSERT_TRUE(open()->store({"evaluate", {}}, profile_));
  EXPECT_TRUE(open()->load(frame_).value().empty());
  EXPECT_EQ(open()->load({"evaluate", {}}).value(), profile_);
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
  for (int i = 0; i < 200; ++i) other[fmt::format("y{}", i)] = {{7, 7}, tensor({2, 2, 2})};
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
}

}  // namespace
}  // namespace lockstep::coordinator::profile_store_test
