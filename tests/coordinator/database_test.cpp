#include <filesystem>
#include <fstream>
#include <random>

#include "sql.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/file_system.h>

namespace lockstep::coordinator::database_test {
namespace {

namespace fs = std::filesystem;
using Journal = Database::Journal;

constexpr std::array kFirst = {"CREATE TABLE line (number INTEGER PRIMARY KEY, text TEXT) STRICT;"};
constexpr std::array kSecond = {kFirst[0], "ALTER TABLE line ADD COLUMN more INTEGER DEFAULT 7;"};

class DatabaseTest : public testing::TestWithParam<Journal> {
 protected:
  DatabaseTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-database-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    seed_ = std::random_device{}();
    random_.seed(seed_);
  }
  ~DatabaseTest() override { fs::remove_all(root_); }

  [[nodiscard]] Database::Options options(std::span<const char* const> migrations = kFirst) {
    return {.directory = root_.string(),
            .file = "test.db",
            .content = {.noun = "test database",
                        .danger = "it matters",
                        .recovery = "a new one is begun",
                        .migrations = migrations},
            .report = [this](const Status& status) { told_.push_back(status.message); },
            .journal = GetParam()};
  }
  std::unique_ptr<Database> open() {
    auto opened = Database::open(options());
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
    return opened ? std::move(*opened) : nullptr;
  }
  static Result<void> put(Database& in, std::int64_t number, const std::string& text) {
    return in.write([&](Transaction& t) {
      t.run("INSERT INTO line (number, text) VALUES (?1, ?2)", {number, std::string_view(text)});
    });
  }
  static std::vector<std::int64_t> numbers(Database& in) {
    std::vector<std::int64_t> out;
    const auto read = in.read([&](Transaction& t) {
      out.clear();
      t.run("SELECT number FROM line ORDER BY number", {},
            [&](const Row& row) { out.push_back(row.integer(0)); });
    });
    EXPECT_TRUE(read) << (read ? "" : read.error().text());
    return out;
  }
  [[nodiscard]] fs::path file() const { return root_ / "test.db"; }
  [[nodiscard]] static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path root_;
  std::vector<std::string> told_;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

INSTANTIATE_TEST_SUITE_P(Journals, DatabaseTest, testing::Values(Journal::Log, Journal::Pages),
                         [](const auto& name) {
                           return name.param == Journal::Log ? "Log" : "Pages";
                         });

TEST_P(DatabaseTest, NewFile_IsPrivateAndKeepsWhatIsWritten) {
  ::umask(0);
  ASSERT_TRUE(put(*open(), 1, "one"));
  ASSERT_TRUE(put(*open(), 2, std::string("a\0b", 3)));
  EXPECT_EQ(numbers(*open()), (std::vector<std::int64_t>{1, 2}));
  for (const auto& entry : fs::directory_iterator(root_))
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << entry.path();
  ::umask(022);
  EXPECT_EQ(bytes_of(file())[18], GetParam() == Journal::Log ? 2 : 1) << "as asked for";
  EXPECT_TRUE(told_.empty());
}

TEST_P(DatabaseTest, FailedTransaction_LeavesNothing) {
  auto database = open();
  ASSERT_TRUE(put(*database, 1, "one"));
  const auto refused = database->write([&](Transaction& t) {
    t.run("INSERT INTO line (number, text) VALUES (2, 'two')");
    t.run("INSERT INTO line (number, text) VALUES (3, ?1)",
          {std::string_view(std::string(20 << 20, 'x'))});
  });
  EXPECT_FALSE(refused) << "longer than any value may be";
  EXPECT_TRUE(numbers(*open()).size() <= 1U);
}

TEST_P(DatabaseTest, OlderVersion_IsBroughtUpAndKeepsItsRows) {
  ASSERT_TRUE(put(*open(), 1, "one"));
  auto later = Database::open(options(kSecond)).value();
  std::int64_t more = 0;
  ASSERT_TRUE(later->read([&](Transaction& t) {
    t.run("SELECT more FROM line WHERE number = 1", {},
          [&](const Row& row) { more = row.integer(0); });
  }));
  EXPECT_EQ(more, 7);
  EXPECT_TRUE(told_.empty());
}

TEST_P(DatabaseTest, NewerVersion_IsRefusedAndNotAltered) {
  ASSERT_TRUE(Database::open(options(kSecond)));
  ASSERT_TRUE(put(*Database::open(options(kSecond)).value(), 5, "five"));
  const std::string before = bytes_of(file());
  for (const auto access : {Database::Access::Write, Database::Access::Read}) {
    auto wanted = options();
    wanted.access = access;
    const auto opened = Database::open(wanted);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::Version);
    EXPECT_NE(opened.error().message.find("is of version 2, which a later lockstep wrote, and this "
                                          "one knows up to 1"),
              std::string::npos)
        << opened.error().message;
  }
  EXPECT_EQ(bytes_of(file()), before);
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(numbers(*Database::open(options(kSecond)).value()), (std::vector<std::int64_t>{5}));
}

TEST_P(DatabaseTest, Reader_MakesNothingAndChangesNothing) {
  auto wanted = options();
  wanted.access = Database::Access::Read;
  EXPECT_FALSE(Database::open(wanted));
  EXPECT_FALSE(fs::exists(file()));
  wanted.directory += "/missing";
  EXPECT_FALSE(Database::open(wanted));
  EXPECT_FALSE(fs::exists(wanted.directory));
  wanted.directory = root_.string();
  ASSERT_TRUE(put(*open(), 1, "one"));
  EXPECT_EQ(numbers(*Database::open(wanted).value()), (std::vector<std::int64_t>{1}));
  std::fstream(file(), std::ios::in | std::ios::out).write("garbage", 7);
  const auto damaged = Database::open(wanted);
  ASSERT_FALSE(damaged);
  EXPECT_NE(damaged.error().message.find("it is damaged"), std::string::npos);
  EXPECT_FALSE(fs::exists(root_ / "test.db.bad"));
}

TEST_P(DatabaseTest, FileThatIsNone_IsSetAsideSaidOnceAndReplaced) {
  for (const std::string& content :
       {std::string("not a database at all"), std::string(5000, 'x')}) {
    std::ofstream(file()) << content;
    fs::permissions(file(), fs::perms::owner_read | fs::perms::owner_write);
    told_.clear();
    ASSERT_TRUE(put(*open(), 1, "one"));
    ASSERT_EQ(told_.size(), 1U);
    EXPECT_NE(told_[0].find("is damaged"), std::string::npos) << told_[0];
    EXPECT_EQ(numbers(*open()), (std::vector<std::int64_t>{1}));
    EXPECT_EQ(told_.size(), 1U);
    fs::remove(file());
  }
  EXPECT_EQ(bytes_of(root_ / "test.db.bad"), "not a database at all");
  EXPECT_EQ(bytes_of(root_ / "test.db.bad2"), std::string(5000, 'x')) << "the earlier one is kept";
}

TEST_P(DatabaseTest, DatabaseOfAnotherProgram_IsSetAside) {
  run_sql(file(), "CREATE TABLE x (y); INSERT INTO x VALUES (1)");
  EXPECT_TRUE(numbers(*open()).empty());
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("it is no database of lockstep"), std::string::npos) << told_[0];
}

// Whatever is altered: what is read is what was written or was set aside and said, and the next
// transactions work.
TEST_P(DatabaseTest, RandomBytesAltered_NeverStopTheWork) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  int set_aside = 0;
  for (int round = 0; round < 150; ++round) {
    for (const auto& entry : fs::directory_iterator(root_)) fs::remove(entry);
    {
      auto database = open();
      ASSERT_TRUE(database->write([&](Transaction& t) {
        for (std::int64_t n = 0; n < 400; ++n)
          t.run("INSERT INTO line (number, text) VALUES (?1, ?2)",
                {n, std::string_view(std::string(60, 'x'))});
      }));
    }
    auto running = round % 2 == 0 ? open() : nullptr;  // damaged while it is in use
    const auto size = fs::file_size(file());
    {
      std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
      for (int n = 0; n < 8; ++n) {
        bytes.seekp(static_cast<std::streamoff>(random_() % (n < 2 ? 100 : size)));
        bytes.put(static_cast<char>(random_()));
      }
    }
    if (round % 5 == 0) fs::resize_file(file(), random_() % size);
    told_.clear();
    auto wanted = options();
    if (running == nullptr) {
      auto opened = Database::open(wanted);
      if (!opened) {  // the altered bytes were those of the version
        EXPECT_EQ(opened.error().code, Code::Version) << opened.error().text();
        continue;
      }
      running = std::move(*opened);
    }
    for (std::int64_t n = 1000; n < 1003; ++n) {
      const auto wrote = put(*running, n, "after");
      EXPECT_TRUE(wrote || wrote.error().code == Code::Version) << wrote.error().text();
    }
    set_aside += !told_.empty();
    EXPECT_EQ(told_.empty(), !fs::exists(root_ / "test.db.bad"));
  }
  EXPECT_GT(set_aside, 30);
}

// As when somebody deletes the cache directory's files while a job runs.
TEST_P(DatabaseTest, FileDeletedOrReplacedUnderway_IsBegunAnew) {
  auto one = open(), two = open();
  ASSERT_TRUE(put(*one, 1, "one"));
  fs::remove(file());
  ASSERT_TRUE(put(*one, 2, "two"));
  ASSERT_TRUE(put(*two, 3, "three"));
  EXPECT_EQ(numbers(*one), (std::vector<std::int64_t>{2, 3})) << "both use the new one";
  EXPECT_EQ(one->files(), 2U);
  for (const auto& entry : fs::directory_iterator(root_)) fs::remove(entry);
  ASSERT_TRUE(put(*two, 4, "four"));
  one.reset();
  EXPECT_EQ(numbers(*two), (std::vector<std::int64_t>{4}));
  two.reset();
  EXPECT_EQ(numbers(*open()), (std::vector<std::int64_t>{4}));
  EXPECT_TRUE(told_.empty());
}

// The last one to close a file deletes its log by name, which may be that of the log of the file
// that replaced it by then.
TEST_P(DatabaseTest, ClosingAFileThatWasSetAside_LeavesTheNewOneWhole) {
  auto one = open();
  ASSERT_TRUE(put(*one, 1, "one"));
  fs::rename(file(), root_ / "test.db.bad");
  for (const char* tail : {"-wal", "-shm", "-journal"}) {
    std::error_code none;
    fs::rename(file().string() + tail, (root_ / "test.db.bad").string() + tail, none);
  }
  auto two = open();
  ASSERT_TRUE(put(*two, 2, "two"));
  one.reset();
  EXPECT_EQ(numbers(*open()), (std::vector<std::int64_t>{2}));
  ASSERT_TRUE(put(*two, 3, "three"));
  EXPECT_EQ(numbers(*open()), (std::vector<std::int64_t>{2, 3}));
}

// A log that stayed behind when its file was deleted is of another file.
TEST_P(DatabaseTest, LogOfAFileThatIsGone_IsNotTakenForThisOnes) {
  fs::create_directory(root_ / "copy");
  {
    auto database = open();
    ASSERT_TRUE(put(*database, 1, "one"));
    for (const auto& entry : fs::directory_iterator(root_))
      if (entry.is_regular_file()) fs::copy(entry, root_ / "copy");
  }
  for (const char* tail : {"", "-wal", "-shm", "-journal"}) fs::remove(file().string() + tail);
  for (const auto& entry : fs::directory_iterator(root_ / "copy"))
    if (entry.path().filename() != "test.db") fs::copy(entry, root_);
  EXPECT_TRUE(numbers(*open()).empty());
  EXPECT_TRUE(told_.empty());
}

TEST_P(DatabaseTest, LinkOrFileOpenToOthersOrDirectory_IsRefused) {
  ASSERT_TRUE(put(*open(), 1, "one"));
  fs::permissions(file(), fs::perms::owner_all | fs::perms::others_read);
  auto opened = Database::open(options());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("chmod 600"), std::string::npos) << opened.error().message;
  fs::rename(file(), root_ / "real.db");
  fs::permissions(root_ / "real.db", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(root_ / "real.db", file());
  EXPECT_FALSE(Database::open(options()));
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_FALSE(Database::open(options()));
  fs::remove(file());
  fs::permissions(root_, fs::perms::owner_all | fs::perms::group_read);
  opened = Database::open(options());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("chmod 700"), std::string::npos) << opened.error().message;
}

TEST_P(DatabaseTest, OneThatWrites_IsWaitedForAndThenNamed) {
  auto one = open(), two = open();
  auto hasty = options();
  hasty.patience = std::chrono::milliseconds(50);
  auto three = Database::open(hasty).value();
  ASSERT_TRUE(one->write([&](Transaction& t) {
    t.run("INSERT INTO line (number, text) VALUES (1, 'one')");
    const auto at_once = two->write_at_once(
        [](Transaction& other) { other.run("INSERT INTO line (number, text) VALUES (2, 'two')"); });
    ASSERT_TRUE(at_once);
    EXPECT_FALSE(*at_once);
    const auto late = put(*three, 3, "three");
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::Environment);
    EXPECT_NE(late.error().message.find("another process has been writing"), std::string::npos)
        << late.error().message;
  }));
  EXPECT_TRUE(*two->write_at_once(
      [](Transaction& other) { other.run("INSERT INTO line (number, text) VALUES (2, 'two')"); }));
  EXPECT_EQ(numbers(*three), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(told_.empty());
}

// Each writer counts up and writes each number down outside once it is committed; it is killed
// anywhere. What is in the file is a prefix, and no shorter than what was written down.
TEST_P(DatabaseTest, KilledWriters_LoseNothingCommitted) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const fs::path log = root_ / "committed";
  std::int64_t total = 0;
  // A busy machine may kill most of them before they have written.
  for (int round = 0; round < 120 || (total <= 10 && round < 1200); ++round) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto opened = Database::open(options());
      if (!opened) ::_exit(1);
      for (std::int64_t n = static_cast<std::int64_t>(numbers(**opened).size());; ++n) {
        if (!put(**opened, n, std::string(static_cast<std::size_t>(n % 900), 'y'))) ::_exit(1);
        std::ofstream(log) << n + 1 << " ";
      }
    }
    ::usleep(static_cast<useconds_t>(random_() % 25000));
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a writer failed by itself";
    const auto there = numbers(*open());
    for (std::size_t n = 0; n < there.size(); ++n)
      ASSERT_EQ(there[n], static_cast<std::int64_t>(n)) << "round " << round;
    std::int64_t committed = 0;
    std::ifstream(log) >> committed;
    ASSERT_GE(static_cast<std::int64_t>(there.size()), committed) << "round " << round;
    total = static_cast<std::int64_t>(there.size());
  }
  EXPECT_GT(total, 10);
  EXPECT_TRUE(told_.empty()) << told_.front();
}

TEST_P(DatabaseTest, FourProcesses_WriteAtOnce) {
  std::vector<pid_t> writers;
  for (std::int64_t writer = 0; writer < 4; ++writer) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto opened = Database::open(options());
      bool ok = opened.has_value();
      for (std::int64_t n = 0; ok && n < 50; ++n)
        ok = put(**opened, writer * 1000 + n, "x").has_value();
      ::_exit(ok ? 0 : 1);
    }
    writers.push_back(pid);
  }
  for (const pid_t pid : writers) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(numbers(*open()).size(), 200U);
  EXPECT_TRUE(told_.empty());
}

TEST_P(DatabaseTest, FullDisk_IsTheEnvironmentAndWhatWasThereStays) {
  const fs::path disk = root_ / "disk";
  fs::create_directory(disk);
  if (::mount("lockstep", disk.c_str(), "tmpfs", MS_NOSUID, "size=512k,mode=700") != 0)
    GTEST_SKIP() << "SKIPPED ALOUD: no file system can be mounted here";
  {
    auto wanted = options();
    wanted.directory = disk.string();
    auto database = Database::open(wanted).value();
    std::int64_t kept = 0;
    Result<void> put_last;
    while ((put_last = put(*database, kept, std::string(20000, 'x')))) ++kept;
    EXPECT_EQ(put_last.error().code, Code::Environment);
    EXPECT_NE(put_last.error().message.find("full"), std::string::npos) << put_last.error().message;
    EXPECT_NE(put_last.error().message.find(disk.string()), std::string::npos);
    EXPECT_GT(kept, 3);
    EXPECT_EQ(numbers(*database).size(), static_cast<std::size_t>(kept));
    auto again = Database::open(wanted);
    if (again) {
      EXPECT_EQ(numbers(**again).size(), static_cast<std::size_t>(kept));
    }
  }
  EXPECT_TRUE(told_.empty()) << told_.front();
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_P(DatabaseTest, ReadOnlyDisk_IsTheEnvironment) {
  const fs::path disk = root_ / "disk";
  fs::create_directory(disk);
  if (::mount("lockstep", disk.c_str(), "tmpfs", MS_NOSUID, "size=2m,mode=700") != 0)
    GTEST_SKIP() << "SKIPPED ALOUD: no file system can be mounted here";
  auto wanted = options();
  wanted.directory = disk.string();
  ASSERT_TRUE(put(*Database::open(wanted).value(), 1, "one"));
  ASSERT_EQ(::mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  auto opened = Database::open(wanted);
  const auto wrote = opened ? put(**opened, 2, "two") : Result<void>(opened.error());
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error().code, Code::Environment) << wrote.error().text();
  opened = Status{};
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

// Where nothing can be mounted: a limit on the size of files.
TEST_P(DatabaseTest, FileSizeLimit_IsTheEnvironmentAndWhatWasThereStays) {
  ASSERT_TRUE(put(*open(), 1, "one"));
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto database = Database::open(options());
    if (!database) ::_exit(2);
    const auto wrote = put(**database, 2, std::string(200000, 'x'));
    ::_exit(!wrote && wrote.error().code == Code::Environment ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(numbers(*open()), (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(told_.empty());
}

TEST(FileSystem, OnlyThoseKnownToBeLocal_AreTakenForIt) {
  EXPECT_TRUE(known_local(EXT4_SUPER_MAGIC));
  EXPECT_TRUE(known_local(TMPFS_MAGIC));
  EXPECT_FALSE(known_local(NFS_SUPER_MAGIC));
  EXPECT_FALSE(known_local(SMB2_SUPER_MAGIC));
  EXPECT_FALSE(known_local(0x0BD00BD0)) << "Lustre";
  EXPECT_FALSE(known_local(0x65735546)) << "FUSE, whatever is behind it";
  EXPECT_FALSE(known_local(12345)) << "unknown";
  EXPECT_FALSE(on_local_file_system("/no/such/place"));
}

}  // namespace
}  // namespace lockstep::coordinator::database_test
