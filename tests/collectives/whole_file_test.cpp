// A file is there whole or not at all, where any call of the system fails, is interrupted, or is
// the last one of the process. This program has the calls that whole_file.cpp makes in its own
// hands.
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/collectives/base/whole_file.h>

namespace {

/// What happens at the calls, counted from 0 while it is armed.
struct Faults {
  bool armed = false;
  int calls = 0;
  int fails_at = -1, number = 0;  // errno of that call
  int dies_before = -1, dies_after = -1;
  bool short_writes = false;
};
Faults faults;

/// Makes the call, or what the test wants of it.
long called(const std::function<long()>& call) {
  if (!faults.armed) return call();
  const int now = faults.calls++;
  if (now == faults.dies_before) ::_exit(0);
  if (now == faults.fails_at) {
    errno = faults.number;
    return -1;
  }
  const long result = call();
  if (now == faults.dies_after) ::_exit(0);
  return result;
}

}  // namespace

extern "C" {
int openat(int folder, const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return static_cast<int>(called([=] { return ::syscall(SYS_openat, folder, path, flags, mode); }));
}
ssize_t write(int fd, const void* bytes, std::size_t size) {
  return called(
      [=] { return ::syscall(SYS_write, fd, bytes, faults.short_writes ? (size + 1) / 2 : size); });
}
int fsync(int fd) {
  return static_cast<int>(called([=] { return ::syscall(SYS_fsync, fd); }));
}
int fchmod(int fd, mode_t mode) {
  return static_cast<int>(called([=] { return ::syscall(SYS_fchmod, fd, mode); }));
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return static_cast<int>(
      called([=] { return ::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0); }));
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  return static_cast<int>(
      called([=] { return ::syscall(SYS_linkat, from_folder, from, to_folder, to, flags); }));
}
}

namespace lockstep::whole_file_test {
namespace {

constexpr const char *kBefore = "before", *kAfter = "all of what comes after it";
const std::vector<std::string> kSteps = {
    "create", "write", "flush", "name", "flush the folder of", "flush the folder of"};

class WholeFile : public testing::Test {
 protected:
  WholeFile()
      : folder_(testing::TempDir() + "whole_file_" + std::to_string(::getpid())),
        path_(folder_ + "/file") {
    std::filesystem::create_directories(folder_);
    put_before();
  }
  ~WholeFile() override {
    faults = {};
    std::filesystem::remove_all(folder_);
  }
  void put_before() const { std::ofstream(path_) << kBefore; }
  [[nodiscard]] std::string content() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  /// With these faults.
  std::optional<FileFault> write(Faults of, DraftOptions options = {.mode = 0600}) const {
    faults = of;
    faults.armed = true;
    auto fault = write_whole_file(path_, kAfter, std::move(options));
    faults.armed = false;
    return fault;
  }
  std::string folder_, path_;
};

TEST_F(WholeFile, WithoutAFault_TakesSixCalls) {
  EXPECT_FALSE(write({}));
  EXPECT_EQ(content(), kAfter);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(faults.calls, static_cast<int>(kSteps.size()));
}

TEST_F(WholeFile, CallThatFails_LeavesTheFileAsItWasAndNoDraft) {
  for (const int number : {ENOSPC, EDQUOT, EIO, EROFS})
    for (std::size_t at = 0; at < kSteps.size(); ++at) {
      put_before();
      const auto fault = write({.fails_at = static_cast<int>(at), .number = number});
      ASSERT_TRUE(fault) << at;
      EXPECT_EQ(fault->step, kSteps[at]);
      EXPECT_EQ(fault->number, number);
      EXPECT_EQ(fault->reason(), std::strerror(number));
      EXPECT_EQ(content(), at < 4 ? kBefore : kAfter) << "call " << at;
      EXPECT_EQ(files(), 1) << "call " << at;
      EXPECT_EQ(faults.calls, static_cast<int>(at) + 1)
          << "nothing is done after the call that failed";
    }
}

TEST_F(WholeFile, CallThatIsInterrupted_GoesOn) {
  for (const int at : {0, 1, 2, 4, 5}) {
    put_before();
    const auto fault = write({.fails_at = at, .number = EINTR});
    EXPECT_FALSE(fault) << at << ": " << fault->step;
    EXPECT_EQ(content(), kAfter) << at;
  }
}

TEST_F(WholeFile, DiskThatTakesAPartOfEachWrite_GetsAll) {
  EXPECT_FALSE(write({.short_writes = true}));
  EXPECT_EQ(content(), kAfter);
}

TEST_F(WholeFile, ProcessThatIsKilledAtAnyCall_LeavesOneOfTheTwoFiles) {
  for (const bool before : {true, false})
    for (int at = 0; at < static_cast<int>(kSteps.size()); ++at) {
      put_before();
      const pid_t child = ::fork();
      if (child == 0) {
        (void)write(before ? Faults{.dies_before = at} : Faults{.dies_after = at});
        ::_exit(1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "it was not killed at call " << at;
      EXPECT_EQ(content(), at < 3 || (at == 3 && before) ? kBefore : kAfter) << "call " << at;
    }
}

TEST_F(WholeFile, FolderThatCannotBeFlushedOrRead_IsNoFault) {
  EXPECT_FALSE(write({.fails_at = 5, .number = EINVAL}));
  EXPECT_EQ(content(), kAfter);
  put_before();
  EXPECT_FALSE(write({.fails_at = 4, .number = EACCES}));
  EXPECT_EQ(content(), kAfter);
}

TEST_F(WholeFile, PermissionsThatCannotBeSet_AreAFaultWhereTheFileIsNotPrivate) {
  const mode_t earlier = ::umask(0277);
  const auto fault = write({.fails_at = 1, .number = EPERM});
  ::umask(earlier);
  ASSERT_TRUE(fault);
  EXPECT_STREQ(fault->step, "create");
  EXPECT_EQ(content(), kBefore);
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFile, PrivateFile_IsPrivateWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{0277}}) {
    const mode_t earlier = ::umask(mask);
    const auto fault = write({});
    ::umask(earlier);
    EXPECT_FALSE(fault);
    struct stat found {};
    ASSERT_EQ(::stat(path_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
  }
}

TEST_F(WholeFile, FileForThisBootOnly_WaitsForNoDisk) {
  EXPECT_FALSE(write({}, {.mode = 0600, .on_disk = false}));
  EXPECT_EQ(content(), kAfter);
  EXPECT_EQ(faults.calls, 3) << "create, write, name";
}

TEST_F(WholeFile, FileThatKeepsTheFirst_IsNotReplaced) {
  EXPECT_FALSE(write({}, {.mode = 0600, .keeps_first = true}));
  EXPECT_EQ(content(), kBefore);
  EXPECT_EQ(files(), 1);
  std::filesystem::remove(path_);
  EXPECT_FALSE(write({}, {.mode = 0600, .keeps_first = true}));
  EXPECT_EQ(content(), kAfter);
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFile, DraftOfAGivenName_TakesTheNameOfALeftover_AndFollowsNoLink) {
  const std::string draft = folder_ + "/draft", elsewhere = folder_ + "/elsewhere";
  std::ofstream(elsewhere) << "not touched";
  std::filesystem::create_symlink(elsewhere, draft);
  EXPECT_FALSE(write({}, {.draft = draft}));
  EXPECT_EQ(content(), kAfter);
  std::ifstream in(elsewhere);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "not touched");
  EXPECT_EQ(files(), 2);
}

TEST_F(WholeFile, DraftThatGetsNoName_IsRemoved) {
  {
    DraftFile draft(path_);
    EXPECT_TRUE(draft.write(std::string_view("half")));
    DraftFile moved(std::move(draft));
    EXPECT_TRUE(moved.write(std::string_view("half")));
    EXPECT_EQ(files(), 2);
  }
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(content(), kBefore);
}

}  // namespace
}  // namespace lockstep::whole_file_test
