// Real jobs that share the work of compiling: ranks with directories and compilers of their own, as
// on several hosts.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>

#include <lockstep/coordinator/store/profile_store.h>

namespace lockstep::worker::job_share_test {
namespace {

namespace fs = std::filesystem;

class JobShare : public testing::Test {
 protected:
  JobShare() {
    // Writes down every unit that is built, by the rank that builds it.
    script("compiler", "case \" $* \" in *\" -o \"*) echo built $OMPI_COMM_WORLD_RANK >>" +
                           folder_ / "builds" + " ;; esac\nexec c++ \"$@\"\n");
  }

  void script(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << text;
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  /// A job of which every rank first runs `prelude`, where $RANK is its rank.
  [[nodiscard]] Launched job(int ranks, const std::string& prelude, int calls = 4) const {
    script("rank", "RANK=$OMPI_COMM_WORLD_RANK\n" + prelude + "\nexec " JOB_SHARE_RANK " \"$@\"\n");
    return launch_ranks(ranks, folder_ / "rank " + std::to_string(calls),
                        "LOCKSTEP_LOG=info LOCKSTEP_CXX=" + folder_ / "compiler");
  }
  /// Directories as of hosts that share nothing.
  [[nodiscard]] std::string own_caches() const {
    return "export LOCKSTEP_CACHE_DIR=" + folder_ / "cache.$RANK";
  }
  [[nodiscard]] int builds() const {
    const std::string log = contents(folder_ / "builds");
    return static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  }
  /// Distinct compile units: the artifacts that a rank ends up with.
  [[nodiscard]] int artifacts(int rank) const {
    const fs::directory_iterator files(folder_ / ("cache." + std::to_string(rank))), end;
    return static_cast<int>(std::count_if(files, end, [](const auto& file) {
      return file.is_regular_file() && !file.path().has_extension();  // no database
    }));
  }
  static std::string totals(const Launched& job) {
    std::string out;
    const std::regex line("total [0-9.e+-]+\n");
    for (std::sregex_iterator m(job.output.begin(), job.output.end(), line), end; m != end; ++m)
      out += m->str();
    return out;
  }

  Folder folder_;
};

TEST_F(JobShare, RanksWithCachesOfTheirOwn_CompileEveryUnitOnce) {
  for (const int ranks : {1, 2, 4}) {
    fs::remove_all(folder_ / "builds");
    for (int r = 0; r < ranks; ++r) fs::remove_all(folder_ / ("cache." + std::to_string(r)));
    const Launched cold = job(ranks, own_caches());
    ASSERT_EQ(cold.exit_code, 0) << cold.output;
    EXPECT_GE(artifacts(0), 8) << "programs of several units";
    EXPECT_EQ(builds(), artifacts(0)) << ranks << " ranks\n" << cold.output;
    const Launched warm = job(ranks, own_caches());
    EXPECT_EQ(builds(), artifacts(ranks - 1)) << "every rank kept what it received";
    EXPECT_EQ(totals(warm), totals(cold));
  }
}

TEST_F(JobShare, NoCacheAnywhere_EveryUnitIsStillBuiltOnce) {
  std::ofstream(folder_ / "file") << "in the way";
  const Launched without = job(3, "export LOCKSTEP_CACHE_DIR=" + folder_ / "file/cache", 2);
  ASSERT_EQ(without.exit_code, 0) << without.output;
  EXPECT_EQ(without.count("goes on without an artifact cache"), 3) << without.output;
  const int built = builds();
  EXPECT_EQ(job(1, own_caches(), 2).exit_code, 0);
  EXPECT_EQ(built, artifacts(0));
}

TEST_F(JobShare, RankWithoutACompiler_TakesWhatOthersBuild) {
  const std::string missing =
      own_caches() + "\n[ $RANK != 1 ] || export LOCKSTEP_CXX=/nonexistent/c++";
  const Launched lacking = job(3, missing);
  ASSERT_EQ(lacking.exit_code, 0) << lacking.output;
  EXPECT_EQ(lacking.count("rank 1: takes the kernels that other ranks build"), 1) << lacking.output;
  EXPECT_EQ(builds(), artifacts(1));
  EXPECT_EQ(contents(folder_ / "builds").find("built 1"), std::string::npos);
  EXPECT_EQ(totals(lacking), totals(job(3, own_caches())));
}

// The compiler answers at start and dies later: as with a full disk or no memory.
TEST_F(JobShare, CompilerThatDiesOnOneRank_HandsItsUnitsOn) {
  script("dying", "case \" $* \" in *\" -o \"*) kill -9 $$;; esac\nexec c++ \"$@\"\n");
  const Launched handed =
      job(3, own_caches() + "\n[ $RANK != 0 ] || export LOCKSTEP_CXX=" + folder_ / "dying");
  ASSERT_EQ(handed.exit_code, 0) << handed.output;
  EXPECT_GE(handed.count("rank 0: leaves unit "), 1) << handed.output;
  EXPECT_EQ(handed.count("was ended by signal 9"), handed.count("rank 0: leaves unit "));
  EXPECT_EQ(builds(), artifacts(0));
}

TEST_F(JobShare, CompilersThatAllDie_AreOneErrorWithEveryReason) {
  script("dying", "case \" $* \" in *\" -o \"*) kill -9 $$;; esac\nexec c++ \"$@\"\n");
  script("full",
         "case \" $* \" in *\" -o \"*) echo 'cc1plus: No space left on device' >&2; exit 1;; esac\n"
         "exec c++ \"$@\"\n");
  const Launched failed = job(2, own_caches() + "\nexport LOCKSTEP_CXX=" + folder_ / "dying" +
                                     "\n[ $RANK != 1 ] || export LOCKSTEP_CXX=" + folder_ / "full");
  EXPECT_EQ(failed.exit_code, 7) << failed.output;
  EXPECT_EQ(failed.count("lockstep: ENVIRONMENT: "), 1) << failed.output;
  EXPECT_EQ(failed.count("rank 1: " + folder_ / "full failed with status 1"), 1) << failed.output;
  EXPECT_GE(failed.count(folder_ / "dying was ended by signal 9"), 1) << failed.output;
}

TEST_F(JobShare, RankWithAnotherCompiler_GetsKernelsOfItsOwn) {
  script("other", "case \" $* \" in *--version*) echo other 7; exit 0;; *\" -o \"*) echo other >>" +
                      folder_ / "builds" + ";; esac\nexec c++ \"$@\"\n");
  const Launched mixed =
      job(3, own_caches() + "\n[ $RANK != 2 ] || export LOCKSTEP_CXX=" + folder_ / "other");
  ASSERT_EQ(mixed.exit_code, 0) << mixed.output;
  EXPECT_EQ(builds(), artifacts(0) + artifacts(2)) << mixed.output;
}

// Every artifact that is stored drives out the others, also those that other ranks are about to
// load from the same directory.
TEST_F(JobShare, CacheThatHoldsOneArtifact_ChangesNothingButTheWork) {
  const std::string shared = "export LOCKSTEP_CACHE_DIR=" + folder_ / "cache.0";
  const Launched roomy = job(3, shared);
  ASSERT_EQ(roomy.exit_code, 0) << roomy.output;
  const Launched cramped = job(3, shared + "\nexport LOCKSTEP_CACHE_LIMIT=1K");
  ASSERT_EQ(cramped.exit_code, 0) << cramped.output;
  EXPECT_EQ(totals(cramped), totals(roomy));
  EXPECT_GT(artifacts(0), 1) << "all were there, so nothing was stored";
  fs::remove_all(folder_ / "cache.0");
  const Launched empty = job(3, shared + "\nexport LOCKSTEP_CACHE_LIMIT=1K");
  ASSERT_EQ(empty.exit_code, 0) << empty.output;
  EXPECT_EQ(totals(empty), totals(roomy));
  EXPECT_EQ(artifacts(0), 1);
  EXPECT_EQ(job(1, shared + "\nexport LOCKSTEP_CACHE_LIMIT=lots").exit_code, 2);
}

TEST_F(JobShare, CoordinationOff_EveryRankBuildsForItself) {
  const Launched alone = job(2, own_caches() + "\nexport LOCKSTEP_COORDINATION=off", 1);
  EXPECT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_GE(builds(), 4);
  EXPECT_EQ(builds() % 2, 0);
}

/// Restarted jobs: the same id, other numbers of ranks.
class JobRestart : public JobShare {
 protected:
  [[nodiscard]] Launched restarted(int ranks, const std::string& job_id,
                                   const std::string& prelude = {}, int calls = 6) const {
    const std::string id = job_id.empty() ? "" : "export LOCKSTEP_JOB_ID=" + job_id + "\n";
    return job(ranks, "export LOCKSTEP_CACHE_DIR=" + folder_ / "cache\n" + id + prelude, calls);
  }
  /// Every rank compiled each frame that often.
  static void expect_compiles(const Launched& job, int ranks, const std::string& times) {
    ASSERT_EQ(job.exit_code, 0) << job.output;
    EXPECT_EQ(job.count("compiled train_step " + times + " evaluate " + times + "\n"), ranks)
        << job.output;
  }
  [[nodiscard]] std::string database(const std::string& cache) const {
    return folder_ / (cache + "/stores/profiles.db");
  }
  /// Frames of the job "a" that have a profile.
  [[nodiscard]] std::size_t profiles(const std::string& cache) const {
    auto store = coordinator::ProfileStore::open({folder_ / (cache + "/stores"), "a", {}});
    const auto all = (*store)->all();
    return all ? all->size() : 0;
  }
  void forget_profiles(const std::string& cache) const {
    for (const char* tail : {"", "-wal", "-shm"}) fs::remove(database(cache) + tail);
  }
};

TEST_F(JobRestart, SameJobId_CompilesOncePerFrame_AtAnyNumberOfRanks) {
  expect_compiles(restarted(4, "a"), 4, "3");
  EXPECT_EQ(profiles("cache"), 2U) << "one per frame";
  for (const int ranks : {4, 2, 3, 1}) expect_compiles(restarted(ranks, "a"), ranks, "1");
  expect_compiles(restarted(2, "b"), 2, "3");
}

TEST_F(JobRestart, WithoutAJobId_KeepsAndUsesNothing) {
  expect_compiles(restarted(2, ""), 2, "3");
  EXPECT_FALSE(fs::exists(database("cache")));
  expect_compiles(restarted(2, "a"), 2, "3");
  expect_compiles(restarted(2, ""), 2, "3");
}

// Hosts that share no directory: what one rank has lost or cannot read the others bring.
TEST_F(JobRestart, ProfilesThatDifferBetweenRanks_AreJoined) {
  expect_compiles(restarted(3, "a", own_caches()), 3, "3");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(profiles("cache." + std::to_string(r)), 2U) << "rank " << r;
  forget_profiles("cache.1");
  expect_compiles(restarted(3, "a", own_caches()), 3, "1");

  std::fstream(database("cache.0"), std::ios::in | std::ios::out).write("damaged, damaged", 16);
  const Launched corrupted = restarted(3, "a", own_caches());
  expect_compiles(corrupted, 3, "1");
  EXPECT_EQ(corrupted.count("profiles.db is damaged"), 1) << corrupted.output;
  EXPECT_EQ(corrupted.count("jobs learn their profiles again"), 1);
  EXPECT_TRUE(fs::exists(database("cache.0") + ".bad"));

  // Rank 0 alone knows less, the others nothing: sizes of x were seen to differ, those of bias not.
  for (const std::string cache : {"cache.0", "cache.1", "cache.2"}) forget_profiles(cache);
  expect_compiles(restarted(1, "a", own_caches(), 2), 1, "2");
  expect_compiles(restarted(3, "a", own_caches()), 3, "2");
}

TEST_F(JobRestart, ProfilesThatCannotBeKept_AreToldAndTheJobGoesOn) {
  for (const char* made : {"cache", "cache/stores"}) {
    fs::create_directory(folder_ / made);
    fs::permissions(folder_ / made, fs::perms::owner_all);
  }
  fs::create_directory(database("cache"));  // in the way
  const Launched without = restarted(2, "a");
  expect_compiles(without, 2, "3");
  EXPECT_EQ(without.count("goes on without profiles"), 2) << without.output;
}

TEST_F(JobRestart, KilledJob_LeavesWhatWasCommitted) {
  EXPECT_NE(restarted(2, "a", "export KILL_AT_CALL=4").exit_code, 0);
  expect_compiles(restarted(3, "a"), 3, "1");
}

TEST_F(JobRestart, RecordOfAJobThatStartedFromAProfile_Replays) {
  expect_compiles(restarted(3, "a"), 3, "3");
  expect_compiles(restarted(2, "a", "export LOCKSTEP_RECORD=" + folder_ / "record"), 2, "1");
  const Launched replay = launch(LOCKSTEP " dryrun " + folder_ / "record");
  EXPECT_EQ(replay.exit_code, 0) << replay.output;

  // Without what the ranks started from, the decisions are others.
  for (const std::string file : {"record/rank-00000.jsonl", "record/rank-00001.jsonl"}) {
    const std::string lines = contents(folder_ / file);
    const std::regex stored(R"re(\{"event":"state"[^\n]*\n)re");
    ASSERT_TRUE(std::regex_search(lines, stored)) << lines.substr(0, 2000);
    std::ofstream(folder_ / file) << std::regex_replace(lines, stored, "");
  }
  const Launched altered = launch(LOCKSTEP " dryrun " + folder_ / "record");
  EXPECT_EQ(altered.exit_code, 3) << altered.output;
}

}  // namespace
}  // namespace lockstep::worker::job_share_test
