// Real jobs under mpirun that report to a coordinator: what it sees of them, and that they come to
// the same whatever becomes of it.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "coordinator_process.h"
#include "launch.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/client/ask_status.h>

namespace lockstep::worker::coordinator_job_test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The lines that say what came of the calls.
std::string totals(const Launched& job) {
  std::string out;
  std::size_t from = 0;
  while (from < job.output.size()) {
    const std::size_t end = std::min(job.output.find('\n', from), job.output.size());
    const std::string line = job.output.substr(from, end - from);
    if (line.starts_with("total ")) out += line + "\n";
    from = end + 1;
  }
  return out;
}

/// A file that jobs wait for before their last call.
class Gate {
 public:
  explicit Gate(std::string file) : file_(std::move(file)) {}
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() const { std::ofstream{file_} << ""; }
  [[nodiscard]] std::string argument() const { return " hold " + file_; }

 private:
  std::string file_;
};

class CoordinatedJob : public testing::Test {
 protected:
  CoordinatedJob() : coordinator_({"--port-file", port_file()}, folder_ / "") {}
  [[nodiscard]] std::string port_file() const { return folder_ / "port"; }
  std::future<Launched> start(const std::string& arguments, const std::string& environment = {}) {
    return std::async(std::launch::async, [=, this] {
      return launch_ranks(3, COORDINATOR_JOB_RANK " " + arguments,
                          "LOCKSTEP_COORDINATOR=" + port_file() + " " + environment);
    });
  }
  /// The one job that the coordinator knows; null where there is none yet.
  [[nodiscard]] Json job() const {
    const auto at = coordinator::PortFile::read(port_file());
    if (!at) return {};
    const auto document = coordinator::ask_status(at->endpoint, *at->secret, 4s);
    const Json jobs = document ? Json::parse(*document)["jobs"] : Json::array();
    return jobs.empty() ? Json{} : jobs[0];
  }
  template <class Holds>
  [[nodiscard]] bool comes_to(const Holds& holds) const {
    for (int tries = 0; tries < 400; ++tries, std::this_thread::sleep_for(50ms))
      if (const Json seen = job(); !seen.is_null() && holds(seen)) return true;
    return false;
  }
  Folder folder_;
  cli::CoordinatorProcess coordinator_;
  Gate gate_{folder_ / "gate"};
};

TEST_F(CoordinatedJob, RanksOfARun_AreSeenAndFinishWithoutAFinding) {
  ASSERT_TRUE(coordinator_.says("ready at"));
  auto running = start("20 50" + gate_.argument(), "LOCKSTEP_JOB_ID=nightly");
  Json last;
  EXPECT_TRUE(comes_to([&](const Json& job) {
    last = job;
    return job["job"] == "nightly" && job["live"] == "0-2" && job["size"] == 3 &&
           job["doing"][0]["ordinal"] > 10 && job["doing"][0]["event"] != "";
  })) << last.dump(1);
  gate_.open();
  const Launched done = running.get();
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_TRUE(comes_to([](const Json& job) { return job["finished"] == "0-2"; })) << job();
  // On a busy machine a rank may be silent for a while.
  for (const char* found : {"ACT ", "WARN stuck", "WARN lost", "WARN hung", "WARN ring"})
    EXPECT_EQ(coordinator_.said().find(found), std::string::npos) << coordinator_.said();
}

TEST_F(CoordinatedJob, CoordinatorKilledInTheMiddle_ChangesNothingButOneLine) {
  ASSERT_TRUE(coordinator_.says("ready at"));
  const Launched alone = launch_ranks(3, COORDINATOR_JOB_RANK " 30 50", "LOCKSTEP_COORDINATOR= ");
  auto running = start("30 50" + gate_.argument());
  ASSERT_TRUE(comes_to([](const Json& job) { return job["live"] == "0-2"; }));
  coordinator_.signal(SIGKILL);
  std::this_thread::sleep_for(3s);  // it is missed while the job runs
  gate_.open();
  const Launched done = running.get();
  EXPECT_EQ(done.exit_code, 0) << done.output;
  const std::string wanted = totals(alone);
  EXPECT_EQ(totals(done), wanted);
  EXPECT_EQ(std::count(wanted.begin(), wanted.end(), '\n'), 30) << alone.output;
  EXPECT_EQ(done.count("The job goes on without it."), 1) << done.output;
}

TEST_F(CoordinatedJob, RankThatStalls_IsNamedWithItsLastEventWithinTenSeconds) {
  ASSERT_TRUE(coordinator_.says("ready at"));
  auto running = start("6 1 stall 30", "LOCKSTEP_DEADLINE_SECONDS=15");
  const bool named = coordinator_.says("WARN stuck job=");
  const Launched done = running.get();
  ASSERT_TRUE(named) << coordinator_.said();
  EXPECT_NE(coordinator_.said().find("Rank 1 (host "), std::string::npos) << coordinator_.said();
  EXPECT_NE(coordinator_.said().find("in which ranks 0,2 wait"), std::string::npos)
      << coordinator_.said();
  EXPECT_NE(coordinator_.said().find("last event: all_reduce at coordinator_job_rank.cpp:"),
            std::string::npos)
      << coordinator_.said();
  EXPECT_EQ(done.exit_code, 4) << done.output;  // the watchdog's verdict, some seconds later
}

TEST(JobWithoutACoordinator, MissingPortFile_IsSaidOnceAndTheJobGoesOn) {
  const Launched done =
      launch_ranks(3, COORDINATOR_JOB_RANK " 3 1", "LOCKSTEP_COORDINATOR=/nonexistent/port");
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_EQ(done.count("/nonexistent/port cannot be used"), 1) << done.output;
  EXPECT_EQ(done.count("The job goes on without it."), 1) << done.output;
}

/// The history that the coordinator of a test keeps.
class RecordedJob : public CoordinatedJob {
 protected:
  RecordedJob() { fs::permissions(folder_ / "", fs::perms::owner_all); }
  [[nodiscard]] Launched history(const std::string& words) const {
    return launch("LOCKSTEP_CACHE_DIR=" + folder_ / "cache " + LOCKSTEP " history --store " +
                  folder_ / "stores " + words);
  }
  [[nodiscard]] Json document(const std::string& words = {}) const {
    const Launched asked = history("--json " + words);
    EXPECT_EQ(asked.exit_code, 0) << asked.output;
    return Json::parse(asked.output, nullptr, false);
  }
  std::future<Launched> nightly(const std::string& arguments) {
    return start(arguments, "LOCKSTEP_JOB_ID=nightly LOCKSTEP_CACHE_DIR=" + folder_ / "cache");
  }
};

TEST_F(RecordedJob, RunsCompilesAndReasons_AreKeptAndOutliveTheCoordinator) {
  EXPECT_EQ(history("").exit_code, 7) << "there is none yet";
  ASSERT_TRUE(coordinator_.says("ready at"));
  ASSERT_EQ(nightly("12 100").get().exit_code, 0);
  ASSERT_TRUE(comes_to([](const Json& job) { return job["finished"] == "0-2"; }));
  auto second = nightly("20 100" + gate_.argument());
  ASSERT_TRUE(comes_to([](const Json& job) { return job["run"] == 2 && job["live"] == "0-2"; }));
  Json seen = document();
  for (int tries = 0; tries < 40 && seen["runs"].size() < 2; ++tries) {
    std::this_thread::sleep_for(500ms);  // it writes once a second
    seen = document();
  }
  EXPECT_EQ(seen["format"], "lockstep.history/1");
  ASSERT_EQ(seen["runs"].size(), 2U) << seen.dump(1) << " while the coordinator writes";
  coordinator_.signal(SIGKILL);
  gate_.open();
  EXPECT_EQ(second.get().exit_code, 0);

  seen = document("nightly");
  ASSERT_EQ(seen["runs"].size(), 2U) << seen.dump(1);
  const Json &last = seen["runs"][0], &first = seen["runs"][1];
  EXPECT_EQ(first["run"], 1);
  EXPECT_EQ(first["ranks"], 3);
  EXPECT_EQ(first["verdict"], "ENDED");
  EXPECT_FALSE(first["ended"].is_null());
  EXPECT_GE(first["compiled"], 1) << first.dump(1);
  ASSERT_GE(first["calls"].size(), 1U);
  EXPECT_EQ(first["calls"][0]["frame"], "train_step");
  EXPECT_EQ(first["calls"][0]["ranks"], "0-2");
  EXPECT_EQ(first["calls"][0]["outcome"], "compiled");
  EXPECT_EQ(first["calls"][0]["versions"].size(), 1U);
  EXPECT_GT(first["calls"][0]["compile_seconds"], 0.0);
  EXPECT_NE(first["calls"][0]["reasons"][0]["reason"], "");
  EXPECT_EQ(last["run"], 2);
  EXPECT_TRUE(last["ended"].is_null()) << "nobody saw how it ended";
  EXPECT_EQ(seen["profile"][0]["frame"], "train_step");
  EXPECT_NE(seen["profile"][0]["sources"]["x"].get<std::string>().find("dynamic"),
            std::string::npos)
      << seen["profile"].dump();

  const Launched table = history("nightly");
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_GE(table.count("train_step"), 1) << table.output;
  EXPECT_EQ(history("").count("nightly"), 2) << history("").output;
  EXPECT_EQ(history("weekly").exit_code, 2);
}

TEST_F(RecordedJob, StoreThatCannotBeUsed_IsSaidAndTheCoordinatorGoesOn) {
  std::ofstream(folder_ / "in the way") << "a file";
  cli::CoordinatorProcess other(
      {"--port-file", folder_ / "other", "--store", folder_ / "in the way/store"}, folder_ / "");
  ASSERT_TRUE(other.says("ready at"));
  ASSERT_EQ(
      launch_ranks(2, COORDINATOR_JOB_RANK " 3 600", "LOCKSTEP_COORDINATOR=" + folder_ / "other")
          .exit_code,
      0);
  EXPECT_TRUE(other.says("the history is not written: cannot make the history directory"))
      << other.said();
  other.signal(SIGTERM);
  EXPECT_EQ(other.wait(), 0);
}

/// Jobs that nobody gave a coordinator.
class WatchedByRankZero : public testing::Test {
 protected:
  std::future<Launched> start(const std::string& arguments, const std::string& environment = {}) {
    return std::async(std::launch::async, [=, this] {
      return launch_ranks(3, COORDINATOR_JOB_RANK " " + arguments, own_cache() + " " + environment);
    });
  }
  [[nodiscard]] std::string own_cache() const {
    return "LOCKSTEP_CACHE_DIR=" + folder_ / "cache" + " LOCKSTEP_COORDINATOR=";
  }
  [[nodiscard]] Launched lockstep(const std::string& words) const {
    return launch("env " + own_cache() + " " LOCKSTEP " " + words);
  }
  [[nodiscard]] int port_files() const {
    std::error_code none;
    const auto files = std::filesystem::directory_iterator(folder_ / "cache/jobs", none);
    return none ? 0 : static_cast<int>(std::distance(begin(files), end(files)));
  }
  /// What `lockstep status` says, once it holds `part`.
  [[nodiscard]] Launched status_with(const std::string& words, const std::string& part) const {
    Launched status;
    for (int tries = 0; tries < 200; ++tries, std::this_thread::sleep_for(50ms))
      if ((status = lockstep("status " + words)).count(part) > 0) break;
    return status;
  }
  Folder folder_;
  Gate gate_{folder_ / "gate"};
};

TEST_F(WatchedByRankZero, StatusFindsTheJobOfThisHostWithoutBeingTold) {
  auto running = start("20 50" + gate_.argument(), "LOCKSTEP_JOB_ID=nightly");
  const Launched status = status_with("", "    0-2 ");
  EXPECT_EQ(status.exit_code, 0) << status.output;
  EXPECT_EQ(status.count("job nightly: 3 ranks"), 1) << status.output;
  const Launched known = status_with("--json nightly", R"("told": "0-2")");
  gate_.open();
  ASSERT_EQ(known.exit_code, 0) << known.output << running.get().output;
  const Json job = Json::parse(known.output)["jobs"][0];
  ASSERT_GE(job["calls"].size(), 1U);
  EXPECT_EQ(job["calls"][0]["told"], "0-2");
  EXPECT_EQ(job["calls"][0]["versions"].size(), 1U) << "the ranks compiled one graph";
  EXPECT_EQ(job["calls"][0]["reasons"][0]["text"], "first call of the frame");
  EXPECT_EQ(job["calls"][0]["attempts"], 1);
  const Launched done = running.get();
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_EQ(port_files(), 0) << "it goes with the job";
  const Json kept = Json::parse(lockstep("history nightly --json").output, nullptr, false);
  ASSERT_EQ(kept["runs"].size(), 1U) << kept.dump(1);
  EXPECT_EQ(kept["runs"][0]["verdict"], "ENDED");
  EXPECT_GE(kept["runs"][0]["compiled"], 1);
  EXPECT_EQ(lockstep("status").exit_code, 7);
  EXPECT_EQ(lockstep("status nightly").exit_code, 7);
}

TEST_F(WatchedByRankZero, TwoJobs_AreTakenApartByTheirNames) {
  auto nightly = start("20 50" + gate_.argument(), "LOCKSTEP_JOB_ID=nightly");
  auto sweep = start("20 50" + gate_.argument(), "LOCKSTEP_JOB_ID=sweep/7");
  const Launched which = status_with("", "2 coordinators listen on this host");
  EXPECT_EQ(which.exit_code, 2) << which.output;
  EXPECT_EQ(which.count("  nightly\n"), 1) << which.output;
  EXPECT_EQ(which.count("  sweep_7"), 1) << which.output;
  EXPECT_EQ(status_with("nightly", "job nightly: 3 ranks").exit_code, 0);
  EXPECT_EQ(status_with("sweep_7", "job sweep/7: 3 ranks").exit_code, 0);
  gate_.open();
  EXPECT_EQ(nightly.get().exit_code, 0);
  EXPECT_EQ(sweep.get().exit_code, 0);
}

TEST_F(WatchedByRankZero, KilledRankZero_LeavesAFileThatIsNoLongerBelieved) {
  auto running = start("20 50" + gate_.argument(), "LOCKSTEP_JOB_ID=nightly");
  const Launched status = status_with("--json", "\"live\": \"0-2\"");
  ASSERT_EQ(status.exit_code, 0) << status.output;
  const Json document = Json::parse(status.output);
  ::kill(document["coordinator"]["pid"].get<int>(), SIGKILL);
  EXPECT_NE(running.get().exit_code, 0);
  EXPECT_EQ(port_files(), 1);
  EXPECT_EQ(lockstep("status").exit_code, 7);
  EXPECT_EQ(port_files(), 0);
}

TEST_F(WatchedByRankZero, Off_HostsNone) {
  const Launched done =
      launch_ranks(3, COORDINATOR_JOB_RANK " 3 1", own_cache() + "off LOCKSTEP_LOG=info,debug");
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache/jobs"));
  EXPECT_EQ(done.count("coordinator at"), 0) << done.output;
}

/// Its line comes before the watchdog's report, which stays the only one.
TEST_F(WatchedByRankZero, RankThatStalls_IsWarnedOfBeforeTheJobEnds) {
  const Launched done = start("6 1 stall 30", "LOCKSTEP_DEADLINE_SECONDS=15").get();
  EXPECT_EQ(done.exit_code, 4) << done.output;
  EXPECT_EQ(done.count("lockstep: WARN stuck job="), 1) << done.output;
  EXPECT_LT(done.output.find("WARN stuck"), done.output.find("lockstep: STUCK")) << done.output;
  EXPECT_EQ(done.count("reported by rank"), 1) << done.output;
}

/// mpirun may end with a code of its own, and its output may be lost: the report is kept.
TEST_F(WatchedByRankZero, ReportOfAFailedRun_IsToldAgainUntilTheNextRun) {
  const std::string id = "LOCKSTEP_JOB_ID=night/ly ";
  const Launched done = start("6 1 stall 30", id + "LOCKSTEP_DEADLINE_SECONDS=4").get();
  ASSERT_EQ(done.exit_code, 4) << done.output;
  const Launched told = lockstep("explain night/ly");
  EXPECT_EQ(told.exit_code, 2) << "what holds a slash is a path: " << told.output;
  const Launched again = lockstep("explain night_ly");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(again.count("lockstep: STUCK: "), 1) << again.output;
  EXPECT_EQ(again.count("leave with exit code 4"), 1) << again.output;
  const Json kept = Json::parse(lockstep("history night/ly --json").output, nullptr, false);
  ASSERT_EQ(kept["runs"].size(), 1U) << kept.dump(1);
  EXPECT_EQ(kept["runs"][0]["verdict"], "STUCK") << kept.dump(1);
  const std::string sentence = kept["runs"][0]["sentence"];
  EXPECT_NE(again.output.find(sentence.substr(0, 40)), std::string::npos)
      << "the ranks' own: " << sentence;
  EXPECT_EQ(start("6 1", id).get().exit_code, 0);
  const Launched over = lockstep("explain night_ly");
  EXPECT_EQ(over.exit_code, 2) << over.output;
  EXPECT_EQ(over.count("no job of that name has left a report"), 1) << over.output;
}

}  // namespace
}  // namespace lockstep::worker::coordinator_job_test
