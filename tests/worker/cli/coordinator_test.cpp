// `lockstep coordinator` and `lockstep status` from outside, with real ranks' publishers between
// them: what they print, their exit codes, and that ranks go on when the coordinator is killed.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "coordinator_process.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/client/publisher.h>

namespace lockstep::worker::cli::coordinator_test {
namespace {

using namespace std::chrono_literals;
using namespace lockstep::coordinator;
using Json = nlohmann::json;

struct Ran {
  int code = -1;
  std::string out, err;
};

class CoordinatorCommand : public testing::Test {
 protected:
  CoordinatorCommand() : folder_(testing::TempDir() + "lockstep-coordinator-XXXXXX") {
    ::mkdtemp(folder_.data());
    ::setenv("LOCKSTEP_CACHE_DIR", folder_.c_str(), 1);
    ::unsetenv("LOCKSTEP_COORDINATOR");
    ::unsetenv("LOCKSTEP_TOKEN");
  }
  ~CoordinatorCommand() override { std::filesystem::remove_all(folder_); }

  Ran run(const std::string& arguments, const std::string& environment = {}) const {
    const std::string out = folder_ + "/out", err = folder_ + "/err";
    const int status = std::system((environment + " timeout 20 " LOCKSTEP_BINARY " " + arguments +
                                    " >" + out + " 2>" + err + " </dev/null")
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text,
                                 mode_t mode = 0600) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  [[nodiscard]] PublisherOptions publishing(const PortFile& at, int rank, int size) const {
    return {.coordinator = at.endpoint,
            .secret = *at.secret,
            .identity = {.job = "train",
                         .rank = {rank},
                         .size = size,
                         .incarnation = Incarnation(static_cast<std::uint64_t>(rank) + 1),
                         .host = "n0",
                         .pid = 1000 + rank,
                         .build = "b1"},
            .say = [](const std::string&) {},
            .first_pause = 20ms,
            .last_pause = 100ms};
  }
  [[nodiscard]] std::string port_file() const { return folder_ + "/coordinator.port"; }
  std::string folder_;
};

TEST_F(CoordinatorCommand, Start_LeavesAPortFileAndSignalsEndItCleanly) {
  for (const int number : {SIGTERM, SIGINT}) {
    CoordinatorProcess coordinator({}, folder_);
    ASSERT_TRUE(coordinator.says("\n")) << "a ready line";
    const auto found = PortFile::read(port_file()).value();
    EXPECT_EQ(coordinator.said(), "lockstep coordinator: ready at " + found.endpoint.text() +
                                      ", port file " + port_file() + "\n");
    EXPECT_NE(found.endpoint.port, 0);
    struct stat kept {};
    ASSERT_EQ(::stat(port_file().c_str(), &kept), 0);
    EXPECT_EQ(kept.st_mode & 0777, 0600U);
    coordinator.signal(number);
    EXPECT_EQ(coordinator.wait(), 0);
    EXPECT_FALSE(std::filesystem::exists(port_file()));
  }
}

TEST_F(CoordinatorCommand, Status_FindsItByPortFileAddressAndEnvironment) {
  CoordinatorProcess coordinator({}, folder_);
  ASSERT_TRUE(coordinator.says("ready at"));
  const std::string address = PortFile::read(port_file()).value().endpoint.text();
  for (const auto& [arguments, environment] : {std::pair<std::string, std::string>{"status", ""},
                                               {"status " + port_file(), ""},
                                               {"status " + address, ""},
                                               {"status", "LOCKSTEP_COORDINATOR=" + address},
                                               {"status", "LOCKSTEP_COORDINATOR=" + port_file()}}) {
    const Ran ran = run(arguments, environment);
    EXPECT_EQ(ran.code, 0) << arguments << " " << environment << ran.err;
    EXPECT_NE(ran.out.find(address), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find('\033'), std::string::npos) << "no colours in a pipe";
  }
  const Ran json = run("status --json");
  EXPECT_EQ(json.code, 0);
  EXPECT_EQ(json.err, "");
  EXPECT_EQ(Json::parse(json.out)["format"], "lockstep.status/1");
}

TEST_F(CoordinatorCommand, Token_KeepsOutWhoDoesNotHaveIt) {
  const std::string token = file("token", "0123456789abcdef0123456789abcdef\n");
  const std::string other = file("other", "another secret of some length\n");
  CoordinatorProcess coordinator({"--token-file", token, "--port-file", folder_ + "/port"},
                                 folder_);
  ASSERT_TRUE(coordinator.says("ready at"));
  EXPECT_EQ(contents(folder_ + "/port").find("secret"), std::string::npos)
      << "the token file has it";
  EXPECT_EQ(run("status " + folder_ + "/port --token-file " + token).code, 0);
  EXPECT_EQ(
      run("status " + folder_ + "/port", "LOCKSTEP_TOKEN=0123456789abcdef0123456789abcdef").code,
      0);
  for (const std::string& arguments : {" --token-file " + other, std::string()}) {
    const Ran ran = run("status " + folder_ + "/port" + arguments);
    EXPECT_EQ(ran.code, 6) << ran.err;
    EXPECT_NE(ran.err.find("secret"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(CoordinatorCommand, OpenToOtherMachinesWithoutASecret_IsRefused) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    const Ran ran = run(std::string("coordinator --listen ") + address);
    EXPECT_EQ(ran.code, 6) << address;
    EXPECT_NE(ran.err.find("--token-file"), std::string::npos) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(port_file()));
  }
  const std::string token = file("token", "0123456789abcdef0123456789abcdef\n");
  CoordinatorProcess coordinator({"--listen", "0.0.0.0:0", "--token-file", token}, folder_);
  EXPECT_TRUE(coordinator.says("ready at 0.0.0.0:"));
}

TEST_F(CoordinatorCommand, Mistakes_HaveOneSentenceAndTheirExitCode) {
  const std::string open = file("open", "0123456789abcdef0123456789abcdef\n", 0644);
  const std::pair<std::string, int> cases[] = {
      {"coordinator --listen nowhere", 2},
      {"coordinator --listen localhost:0", 2},
      {"coordinator extra", 2},
      {"coordinator --token-file " + open, 6},
      {"coordinator --token-file " + folder_ + "/none", 7},
      {"coordinator --port-file " + folder_ + "/none/port", 7},
      {"coordinator --listen 192.0.2.1:0 --token-file " +
           file("token", "0123456789abcdef0123456789abcdef"),
       7},
      {"status", 7},
      {"status nowhere", 7},
      {"status 127.0.0.1:x", 2},
      {"status --json --watch", 2},
      {"status --token-file " + open + " 127.0.0.1:1", 6},
      {"status 127.0.0.1:1", 6}};
  for (const auto& [arguments, code] : cases) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, code) << arguments << ": " << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_TRUE(ran.err.starts_with("lockstep: ")) << arguments << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << arguments << ran.err;
  }
}

TEST_F(CoordinatorCommand, StatusWhereNobodyListensOrNobodyAnswers_SaysSoInTime) {
  const SystemClock clock;
  const Instant began = clock.now();
  const Ran nobody = run("status 127.0.0.1:1", "LOCKSTEP_TOKEN=0123456789abcdef0123456789abcdef");
  EXPECT_EQ(nobody.code, 7);
  EXPECT_NE(nobody.err.find("nobody listens there"), std::string::npos) << nobody.err;
  EXPECT_LT(clock.now() - began, 4s);
  CoordinatorProcess coordinator({}, folder_);
  ASSERT_TRUE(coordinator.says("ready at"));
  coordinator.signal(SIGSTOP);
  const Instant asked = clock.now();
  const Ran silent = run("status");
  EXPECT_EQ(silent.code, 4) << silent.err;
  EXPECT_NE(silent.err.find("did not answer"), std::string::npos) << silent.err;
  EXPECT_LT(clock.now() - asked, 10s);
}

TEST_F(CoordinatorCommand, RankThatOthersWaitFor_IsNamedByTheCoordinatorAndByStatus) {
  CoordinatorProcess coordinator({"--events", folder_ + "/events"}, folder_);
  ASSERT_TRUE(coordinator.says("ready at"));
  const auto at = PortFile::read(port_file()).value();
  const SystemClock clock;
  const auto board = Board::in_process(3);
  const int world = board->entry(kWorldGroup, RankSet::all(3), "world");
  std::vector<std::unique_ptr<Publisher>> publishers;
  for (int r = 0; r < 3; ++r) {
    board->seat(Rank{r}).register_process(1000 + r, 1, clock.now());
    board->seat(Rank{r}).phase(Phase::Tracing);
    board->seat(Rank{r}).note("call 6 of train_step", clock.now());
    publishers.push_back(Publisher::start(*board, publishing(at, r, 3)).value());
  }
  const Instant began = clock.now();
  for (const int r : {0, 2}) {
    board->seat(Rank{r}).begin(OperationKind::Vote, world, 12, clock.now());
    board->seat(Rank{r}).wait(true);
  }
  ASSERT_TRUE(
      coordinator.says("WARN stuck job=train: Rank 1 (host n0) has not come to operation 12 "
                       "(vote), in which ranks 0,2 wait"));
  EXPECT_LT(clock.now() - began, 20s);
  EXPECT_NE(coordinator.said().find("tracing, last event: call 6 of train_step"),
            std::string::npos);
  const Ran table = run("status");
  EXPECT_EQ(table.code, 0);
  for (const char* part : {"WARNING  job train: 3 ranks, build b1", "stuck: Rank 1 (host n0)",
                           "vote 12", "0,2 / 1", "call 6 of train_step"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part << " in\n" << table.out;
  const Json job = Json::parse(run("status --json").out)["jobs"][0];
  EXPECT_EQ(job["findings"][0]["kind"], "stuck");
  EXPECT_EQ(job["findings"][0]["ranks"], "1");
  const Ran dump = run("dump");
  EXPECT_EQ(dump.code, 0);
  for (const char* part : {"job train: 3 ranks", "n0                   1001  tracing    -",
                           "n0                   1002  waiting    vote 12", "call 6 of train_step"})
    EXPECT_NE(dump.out.find(part), std::string::npos) << part << " in\n" << dump.out;
  EXPECT_EQ(Json::parse(run("dump --json").out)["jobs"][0]["ranks"].size(), 3U);
  std::istringstream events(contents(folder_ + "/events"));
  std::set<std::string> named;
  for (std::string line; std::getline(events, line);) named.insert(Json::parse(line)["event"]);
  EXPECT_TRUE(named.contains("began") && named.contains("joined") && named.contains("stuck"));
  for (int r = 0; r < 3; ++r) board->seat(Rank{r}).finish();
}

TEST_F(CoordinatorCommand, EventsThatCannotBeWritten_AreSaidBeforeItListens) {
  const Ran refused = run("coordinator --events " + folder_ + "/nowhere/events");
  EXPECT_EQ(refused.code, 7);
  EXPECT_NE(refused.err.find("nowhere/events"), std::string::npos);
  EXPECT_TRUE(refused.out.empty());
}

TEST_F(CoordinatorCommand, KilledCoordinator_HoldsNobodyUpAndTheNextOneIsFound) {
  auto coordinator = std::make_unique<CoordinatorProcess>(std::vector<std::string>{}, folder_);
  ASSERT_TRUE(coordinator->says("ready at"));
  const auto at = PortFile::read(port_file()).value();
  const SystemClock clock;
  const auto board = Board::in_process(2);
  const int world = board->entry(kWorldGroup, RankSet::all(2));
  std::atomic<int> said{0};
  std::vector<std::unique_ptr<Publisher>> publishers;
  for (int r = 0; r < 2; ++r) {
    PublisherOptions options = publishing(at, r, 2);
    options.say = [&](const std::string&) { ++said; };
    publishers.push_back(Publisher::start(*board, std::move(options)).value());
  }
  const auto all_joined = [&](bool wanted) {
    for (int tries = 0; tries < 1000; ++tries, std::this_thread::sleep_for(10ms))
      if (publishers[0]->joined() == wanted && publishers[1]->joined() == wanted) return true;
    return false;
  };
  // The longest time that a step of a rank takes, whatever becomes of the coordinator.
  Duration longest{0};
  std::uint64_t steps = 0;
  const auto steps_until = [&](const auto& done) {
    std::atomic<bool> over{false};
    std::thread waiter([&] {
      EXPECT_TRUE(done());
      over = true;
    });
    while (!over) {
      const Instant before = clock.now();
      board->seat(Rank{0}).begin(OperationKind::Vote, world, ++steps, before);
      board->seat(Rank{0}).wait(true);
      board->seat(Rank{0}).wait(false);
      longest = std::max(longest, clock.now() - before);
      std::this_thread::sleep_for(1ms);
    }
    waiter.join();
  };
  steps_until([&] { return all_joined(true); });
  coordinator->signal(SIGKILL);
  EXPECT_EQ(coordinator->wait(), -SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(port_file())) << "killed, it cleans up nothing";
  steps_until([&] { return all_joined(false); });
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(said.load(), 2) << "once per rank";
  EXPECT_LT(longest, 1s) << "a rank writes to its board and waits for nobody";

  const std::string token = file(
      "token", std::string(reinterpret_cast<const char*>(at.secret->data()), at.secret->size()));
  CoordinatorProcess next({"--listen", at.endpoint.text(), "--token-file", token}, folder_);
  ASSERT_TRUE(next.says("ready at"));
  steps_until([&] { return all_joined(true); });
  EXPECT_EQ(said.load(), 4);
  const Instant before = clock.now();
  publishers.clear();
  EXPECT_LT(clock.now() - before, 2s);
}

TEST_F(CoordinatorCommand, History_HasWhatRanksToldAndWhy) {
  CoordinatorProcess coordinator({}, folder_);
  ASSERT_TRUE(coordinator.says("\n"));
  const PortFile at = PortFile::read(port_file()).value();
  const auto board = Board::in_process(3);
  std::vector<std::unique_ptr<Publisher>> ranks;
  for (int r = 0; r < 3; ++r) {
    PublisherOptions options = publishing(at, r, 3);
    options.feed = std::make_shared<Feed>();
    options.feed->configure("a=1\n");
    options.feed->tell({.frame = "step",
                        .call = 7,
                        .entry = 2,
                        .graph = {1, r == 2 ? 9U : 1U},
                        .reason = r == 2 ? "x.size(0) is 7" : "first call",
                        .compile = std::chrono::milliseconds(20 + r)});
    ranks.push_back(Publisher::start(*board, std::move(options)).value());
  }
  Json seen;
  for (int tries = 0; tries < 100; ++tries, std::this_thread::sleep_for(100ms)) {
    const Ran asked = run("history train --json");
    if (asked.code != 0) continue;
    seen = Json::parse(asked.out);
    if (!seen["runs"][0]["calls"].empty() && seen["runs"][0]["calls"][0]["ranks"] == "0-2") break;
  }
  const Json& first = seen["runs"][0];
  ASSERT_EQ(first["calls"].size(), 1U) << seen.dump(1);
  const Json& call = first["calls"][0];
  EXPECT_EQ(call["frame"], "step");
  EXPECT_EQ(call["call"], 7);
  EXPECT_EQ(call["entry"], 2);
  EXPECT_EQ(call["ranks"], "0-2");
  EXPECT_EQ(call["compile_slowest"], 2);
  ASSERT_EQ(call["reasons"].size(), 2U) << call;
  for (const Json& reason : call["reasons"])
    EXPECT_EQ(reason["ranks"], reason["reason"] == "first call" ? "0-1" : "2") << call;
  EXPECT_EQ(call["versions"].size(), 2U);
  EXPECT_EQ(first["configuration"], "a=1\n");
  EXPECT_EQ(first["compiled"], 1);
  const Ran table = run("history train");
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.out.find("x.size(0) is 7 [ranks 2]"), std::string::npos) << table.out;
  EXPECT_NE(run("history").out.find("running, "), std::string::npos) << run("history").out;
  EXPECT_EQ(run("history nobody").code, 2);
  EXPECT_EQ(run("history --store " + folder_ + "/none").code, 7);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/none"));
  // A coordinator that is told to end writes the last of it.
  ranks.clear();
  coordinator.signal(SIGTERM);
  EXPECT_EQ(coordinator.wait(), 0);
  EXPECT_FALSE(Json::parse(run("history --json").out)["runs"][0]["ended"].is_null());
}

}  // namespace
}  // namespace lockstep::worker::cli::coordinator_test
