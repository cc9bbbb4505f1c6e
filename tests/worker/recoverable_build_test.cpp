// Errors after which the job goes on, one test per row of the table in collectives/README.md: what
// goes wrong around compiling. Compilers and caches are real ones, of which each rank has its own;
// a disk that is full or cannot be read stands before write() and read(), for files in one folder.
#include <cerrno>
#include <cstring>

#include "recoverable_ranks.h"
#include <sys/syscall.h>
#include <unistd.h>

namespace {

enum class Disk { Well, Full, Unreadable };
Disk disk = Disk::Well;
std::string disk_folder;

bool on_disk(int descriptor) {
  char path[512] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 &&
         std::strncmp(path, disk_folder.data(), disk_folder.size()) == 0;
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t size) {
  if (disk == Disk::Full && on_disk(file)) {
    errno = ENOSPC;
    return -1;
  }
  return ::syscall(SYS_write, file, bytes, size);
}

ssize_t read(int file, void* bytes, size_t size) {
  if (disk == Disk::Unreadable && on_disk(file)) {
    errno = EIO;
    return -1;
  }
  return ::syscall(SYS_read, file, bytes, size);
}
}

namespace lockstep::worker::recoverable_build_test {
namespace {

namespace fs = std::filesystem;

class RecoverableBuild : public RecoverableRanks {
 protected:
  void SetUp() override {
    disk = Disk::Well;
    RecoverableRanks::SetUp();
  }
  void TearDown() override { disk = Disk::Well; }

  /// Artifacts of this rank that may be used.
  [[nodiscard]] std::vector<fs::path> artifacts() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(cache))
      if (file.is_regular_file() && !file.path().has_extension()) found.push_back(file.path());
    return found;
  }

  /// All compilers fail as `fail` makes them: one error with every rank's own reason, and the next
  /// call compiles where they are `mended`.
  void expect_joint_environment(const std::function<void()>& fail,
                                const std::function<void()>& mend, const std::string& reason) {
    auto other = frame("other"), step = frame("step", 2);
    said_while([&] {
      expect_right(other, 1);
      fail();
      for (int call = 2; call < 4; ++call) {
        const auto out = step(parcel(call));
        for (int r = 0; r < size; ++r)
          expect_error(out, Code::Environment, RankSet::of(Rank{r}),
                       folder / ("compiler." + std::to_string(r)) + reason);
        expect_right(other, 1);
      }
      mend();
      expect_goes_on(step, 2, other);
    });
  }

  /// Something happens to the cache of the last rank, or of all: what was built is then needed by
  /// another frame. That goes on, with right numbers, and ranks to which it happened say `text`.
  void expect_told_and_goes_on(
      const std::function<void()>& happens, const std::string& text,
      const std::function<void()>& mend = [] {}) {
    for (const bool everyone : {false, true}) {
      if (everyone && size == 1) break;
      restart({});
      auto other = frame("other"), first = frame("first", 2);
      said_while([&] {
        expect_right(other, 1);
        expect_right(first, 1, 2);
      });
      ASSERT_FALSE(artifacts().empty());
      const bool hit = everyone || last;
      if (hit) happens();
      auto step = frame("step", 2), third = frame("third", 3);
      const std::string said = said_while([&] {
        expect_right(step, 1, 2);
        expect_right(third, 1, 3);
      });
      EXPECT_EQ(contains(said, text), hit) << "rank " << rank << " said\n" << said;
      if (hit) mend();
      said_while([&] { expect_goes_on(step, 2, other); });
      EXPECT_FALSE(artifacts().empty()) << "the mended cache keeps what was built";
    }
  }
};

TEST_F(RecoverableBuild, SourceFailure_TheCompilerRejectsTheText) {
  auto other = frame("other"), step = frame("step", 2);
  said_while([&] {
    expect_right(other, 1);
    compiler_does("rejects");
    for (int call = 2; call < 4; ++call)  // one rank tries, and no other after it
      expect_error(step(parcel(call)), Code::CompileError, RankSet::of(Rank{0}),
                   "compiler.0 rejects a generated kernel: <stdin>:1:5: error: ");
    expect_right(other, 1);
    compiler_does("");
    expect_goes_on(step, 2, other);
  });
}

TEST_F(RecoverableBuild, EnvironmentFailure_OnAllRanks_NoCompiler) {
  expect_joint_environment([&] { fs::rename(compiler(), compiler() + ".gone"); },
                           [&] { fs::rename(compiler() + ".gone", compiler()); },
                           ": No such file or directory");
}

TEST_F(RecoverableBuild, EnvironmentFailure_OnAllRanks_KilledCompiler) {
  expect_joint_environment([&] { compiler_does("dies"); }, [&] { compiler_does(""); },
                           " was ended by signal 9");
}

TEST_F(RecoverableBuild, EnvironmentFailure_OnAllRanks_DiskOfTheCompilerIsFull) {
  expect_joint_environment(
      [&] { compiler_does("full"); }, [&] { compiler_does(""); },
      " failed with status 1: /usr/bin/ld: final link failed: No space left on device");
}

TEST_F(RecoverableBuild, EnvironmentFailure_OnOneRank_TheNextOneBuilds) {
  if (size == 1) return;  // that is all ranks
  auto other = frame("other"), step = frame("step", 2);
  said_while([&] { expect_right(other, 1); });
  double factor = 3;
  for (const std::string how : {"dies", "full", "gone"}) {
    if (rank == 0 && how == "gone") fs::rename(compiler(), compiler() + ".gone");
    if (rank == 0 && how != "gone") compiler_does(how);
    auto hit = frame("hit by " + how, ++factor);
    const std::string said = said_while([&] { expect_right(hit, 2, factor); });
    EXPECT_EQ(contains(said, "lockstep: rank 0: leaves unit 0 of 1 to the other ranks: "),
              rank == 0)
        << said;
    if (rank == 0 && how == "gone") fs::rename(compiler() + ".gone", compiler());
    compiler_does("");
  }
  said_while([&] { expect_goes_on(step, 2, other); });
}

TEST_F(RecoverableBuild, DamagedArtifact_IsSetAsideAndMadeAgain) {
  expect_told_and_goes_on(
      [&] {
        for (const fs::path& file : artifacts()) fs::resize_file(file, fs::file_size(file) / 2);
      },
      " is damaged (");
}

TEST_F(RecoverableBuild, ArtifactThatCannotBeRead_IsToldAndMadeAgain) {
  expect_told_and_goes_on([&] { disk = Disk::Unreadable, disk_folder = cache; },
                          "Input/output error", [] { disk = Disk::Well; });
}

TEST_F(RecoverableBuild, ArtifactThatIsNoFile_IsSetAsideAndMadeAgain) {
  expect_told_and_goes_on(
      [&] {
        for (const fs::path& file : artifacts()) fs::remove(file), fs::create_directory(file);
      },
      "it is not a file of this user");
}

TEST_F(RecoverableBuild, DiskOfTheArtifactsIsFull_IsToldAndTheJobGoesOn) {
  expect_told_and_goes_on([&] { disk = Disk::Full, disk_folder = cache; },
                          "No space left on device", [] { disk = Disk::Well; });
}

}  // namespace
}  // namespace lockstep::worker::recoverable_build_test
