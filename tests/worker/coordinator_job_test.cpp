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

#include <lockstep/coordinator/ask_status.h>

namespace lockstep::worker {
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
};

TEST_F(CoordinatedJob, RanksOfARun_AreSeenAndFinishWithoutAFinding) {
  ASSERT_TRUE(coordinator_.says("ready at"));
  auto running = start("100 50", "LOCKSTEP_JOB_ID=nightly");
  Json last;
  EXPECT_TRUE(comes_to([&](const Json& job) {
    last = job;
    return job["job"] == "nightly" && job["live"] == "0-2" && job["size"] == 3 &&
           job["doing"][0]["ordinal"] > 10 && job["doing"][0]["event"] != "";
  })) << last.dump(1);
  const Launched done = running.get();
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_TRUE(comes_to([](const Json& job) { return job["finished"] == "0-2"; })) << job();
  EXPECT_EQ(coordinator_.said().find("WARN"), std::string::npos) << coordinator_.said();
}

TEST_F(CoordinatedJob, CoordinatorKilledInTheMiddle_ChangesNothingButOneLine) {
  ASSERT_TRUE(coordinator_.says("ready at"));
  const Launched alone = launch_ranks(3, COORDINATOR_JOB_RANK " 30 50", "LOCKSTEP_COORDINATOR= ");
  auto running = start("30 50");
  ASSERT_TRUE(comes_to([](const Json& job) { return job["live"] == "0-2"; }));
  coordinator_.signal(SIGKILL);
  const Launched done = running.get();
  EXPECT_EQ(done.exit_code, 0) << done.output;
  const std::string wanted = totals(alone);
  EXPECT_EQ(totals(done), wanted);
  EXPECT_EQ(std::count(wanted.begin(), wanted.end(), '\n'), 30) << alone.output;
  EXPECT_EQ(done.count("The job goes on without it."), 1) << done.output;
}

TEST_F(CoordinatedJob, RankThatStalls_IsNamedWithItsLastEventWithinTenSeconds) {
  ASSERT_TRUE(coordinator_.says("ready at"));
  auto running = start("6 1 stall 30", "LOCKSTEP_DEADLINE_SECONDS=9");
  const bool named = coordinator_.says("WARN stuck job=");
  const Launched done = running.get();
  ASSERT_TRUE(named) << coordinator_.said();
  EXPECT_NE(coordinator_.said().find("Rank 1 (host "), std::string::npos) << coordinator_.said();
  EXPECT_NE(coordinator_.said().find("in which ranks 0,2 wait"), std::string::npos)
      << coordinator_.said();
  EXPECT_NE(coordinator_.said().find("train_step"), std::string::npos);
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
                  folder_ / " " + words);
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

TEST_F(RecordedJob, Runs_AreKeptAndOutliveTheCoordinator) {
  EXPECT_EQ(history("").exit_code, 7) << "there is none yet";
  ASSERT_TRUE(coordinator_.says("ready at"));
  ASSERT_EQ(nightly("12 100").get().exit_code, 0);
  ASSERT_TRUE(comes_to([](const Json& job) { return job["finished"] == "0-2"; }));
  auto second = nightly("60 100");
  ASSERT_TRUE(comes_to([](const Json& job) { return job["run"] == 2 && job["live"] == "0-2"; }));
  std::this_thread::sleep_for(2500ms);  // it writes once a second
  Json seen = document();
  EXPECT_EQ(seen["format"], "lockstep.history/1");
  ASSERT_EQ(seen["runs"].size(), 2U) << seen.dump(1) << " while the coordinator writes";
  coordinator_.signal(SIGKILL);
  EXPECT_EQ(second.get().exit_code, 0);

  seen = document("nightly");
  ASSERT_EQ(seen["runs"].size(), 2U) << seen.dump(1);
  const Json &last = seen["runs"][0], &first = seen["runs"][1];
  EXPECT_EQ(first["run"], 1);
  EXPECT_EQ(first["ranks"], 3);
  EXPECT_EQ(first["verdict"], "ENDED");
  EXPECT_FALSE(first["ended"].is_null());
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

}  // namespace
}  // namespace lockstep::worker
