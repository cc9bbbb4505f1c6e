// The history of jobs: what of a service is kept, that it comes back, and that nothing that happens
// to its writers or its file takes more than what was not written yet.
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "sql.h"
#include "watched_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/coordinator/documents/history_collector.h>
#include <lockstep/coordinator/store/history_store.h>
#include <lockstep/coordinator/store/history_writer.h>

namespace lockstep::coordinator::history_store_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const HistoryTime kNoon{std::chrono::microseconds(1'700'000'000'000'000)};

CallEvent compiled(std::uint64_t call, const std::string& reason, std::uint64_t graph = 1) {
  return {.frame = "step",
          .call = call,
          .entry = 0,
          .graph = {graph, 2},
          .nodes = 5,
          .reason = reason,
          .decisions = "x=[s0, 8]",
          .trace = 3ms,
          .compile = 40ms};
}

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-history-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    seed_ = std::random_device{}();
    random_.seed(seed_);
  }
  ~HistoryTest() override { fs::remove_all(root_); }
  std::unique_ptr<HistoryStore> open(Database::Access access = Database::Access::Write) {
    auto opened = HistoryStore::open(
        {.directory = root_.string(),
         .report = [this](const Status& status) { told_.push_back(status.message); },
         .access = access});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
    return opened ? std::move(*opened) : nullptr;
  }
  void tell(WatchedRanks& ranks, int rank, const CallEvent& event) {
    (void)ranks.service.told(ranks.connections.at(rank), event, ranks.now);
  }
  static RunNews news(const std::string& coordinator, int watched, const std::string& job,
                      std::vector<HistoryCall> calls = {}) {
    RunNews one;
    one.run = {.coordinator = coordinator,
               .job = job,
               .watched = watched,
               .size = 4,
               .build = "b1",
               .configuration = "a=1\n",
               .began = kNoon,
               .seen = kNoon + 5s,
               .word = "OK",
               .sentence = "All is well."};
    one.calls = std::move(calls);
    return one;
  }
  HistoryCall random_call(std::uint64_t serial) {
    const auto text = [&] {
      return std::string(random_() % 30, static_cast<char>('a' + serial % 26));
    };
    HistoryCall call{.serial = serial,
                     .at = kNoon + std::chrono::seconds(serial),
                     .frame = text(),
                     .group = text(),
                     .epoch = random_() % 3,
                     .call = random_() % 100,
                     .outcome = "compiled",
                     .entry = static_cast<std::int32_t>(random_() % 9) - 1,
                     .attempts = 2,
                     .ranks = "0-3",
                     .exchange = Duration(random_() % 1000),
                     .trace = Duration(random_() % 1000),
                     .compile = Duration(random_() % 100000000),
                     .waited = Duration(random_() % 1000),
                     .slowest = 2};
    for (std::uint64_t n = random_() % 3; n > 0; --n)
      call.versions.push_back({text(), text(), "compiled", "", text()});
    for (std::uint64_t n = random_() % 3; n > 0; --n) call.reasons.push_back({text(), text()});
    return call;
  }

  /// The first errors of `writer`, within ten seconds.
  static std::vector<std::string> said_by(HistoryWriter& writer) {
    std::vector<std::string> said;
    for (int tries = 0; tries < 1000 && said.empty(); ++tries) {
      std::this_thread::sleep_for(10ms);
      said = writer.errors();
    }
    return said;
  }

  fs::path root_;
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::vector<std::string> told_;
};

TEST_F(HistoryTest, WhatIsWritten_ComesBack) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  std::vector<HistoryCall> calls;
  for (std::uint64_t serial = 0; serial < 60; ++serial) calls.push_back(random_call(serial));
  RunNews one = news("c", 1, "train", calls);
  one.notes = {{kNoon, "lost", "Rank 3 is lost."}, {kNoon + 1s, "verdict RANK_LOST", "It ends."}};
  ASSERT_TRUE(open()->write({one, news("c", 2, "other")}));
  // More ranks told of some of them.
  for (std::size_t n = 50; n < calls.size(); ++n) calls[n] = random_call(n);
  RunNews more = news("c", 1, "train", {calls.begin() + 50, calls.end()});
  more.run.ended = kNoon + 9s;
  ASSERT_TRUE(open()->write({more}));

  auto store = open(Database::Access::Read);
  const auto runs = store->runs("train").value();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].ended, kNoon + 9s);
  EXPECT_EQ(runs[0].number, 1);
  EXPECT_EQ(runs[0].compiled, 60U);
  EXPECT_EQ(store->calls(runs[0]).value(), calls);
  EXPECT_EQ(store->notes(runs[0]).value(), one.notes);
  EXPECT_EQ(store->runs("").value().size(), 2U);
  EXPECT_TRUE(store->runs("no such job").value().empty());
}

TEST_F(HistoryTest, RunsOfAJob_AreCountedWhoeverWatchedThem) {
  auto store = open();
  for (const char* coordinator : {"a", "b", "c"})
    ASSERT_TRUE(store->write({news(coordinator, 1, "train"), news(coordinator, 2, "other")}));
  ASSERT_TRUE(store->write({news("b", 1, "train")}));
  const auto runs = store->runs("train").value();
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].number, 3);
  EXPECT_EQ(runs[2].number, 1);
}

TEST_F(HistoryTest, MoreThanIsKept_GoesWithAllThatBelongsToIt) {
  auto store = open();
  std::vector<RunNews> many;
  for (int n = 1; n <= HistoryStore::kMostRuns + 5; ++n) {
    many.push_back(news("c", n, "train", {random_call(0)}));
    many.back().notes = {{kNoon, "lost", "x"}};
  }
  ASSERT_TRUE(store->write(many));
  EXPECT_EQ(store->runs("").value().size(), static_cast<std::size_t>(HistoryStore::kMostRuns));
  RunNews& last = many.back();
  last.calls = {random_call(HistoryStore::kMostCalls + 2)};
  for (int n = 0; n < HistoryStore::kMostNotes; ++n) last.notes.push_back({kNoon, "stuck", "y"});
  ASSERT_TRUE(store->write({last}));
  const HistoryRun run = store->runs("").value().front();
  EXPECT_EQ(store->calls(run).value().size(), 1U) << "the first call is out of reach";
  EXPECT_EQ(store->notes(run).value().size(), static_cast<std::size_t>(HistoryStore::kMostNotes));
  HistoryRun gone = run;
  gone.id = 1;
  EXPECT_TRUE(store->calls(gone).value().empty());
  EXPECT_TRUE(store->notes(gone).value().empty());
}

TEST_F(HistoryTest, Collector_TellsWhatIsNewAndOnlyThat) {
  WatchedRanks ranks(4);
  HistoryCollector collector("c");
  const auto collect = [&] {
    return collector.collect(
        ranks.service, ranks.now,
        kNoon + std::chrono::duration_cast<std::chrono::microseconds>(ranks.now));
  };
  EXPECT_TRUE(collect().empty());
  ranks.join_all();
  ranks.tell_all();
  auto all = collect();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].run.job, "train");
  EXPECT_EQ(all[0].run.size, 4);
  EXPECT_EQ(all[0].run.word, "OK");
  EXPECT_FALSE(all[0].run.ended);
  ranks.pass(2s);
  EXPECT_TRUE(collect().empty()) << "nothing new";

  for (int r = 0; r < 3; ++r) tell(ranks, r, compiled(0, "first call"));
  tell(ranks, 3, compiled(0, "x.size(0) is 7", 9));
  all = collect();
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].calls.size(), 1U);
  const HistoryCall& call = all[0].calls[0];
  EXPECT_EQ(call.ranks, "0-3");
  ASSERT_EQ(call.versions.size(), 2U);
  EXPECT_EQ(call.versions[0].ranks, "0-2");
  EXPECT_EQ(call.versions[1].ranks, "3");
  ASSERT_EQ(call.reasons.size(), 2U);
  EXPECT_EQ(call.reasons[1].text, "x.size(0) is 7");
  EXPECT_EQ(call.compile, 40ms);
  EXPECT_EQ(call.code, "");
  ranks.pass(1s);
  EXPECT_TRUE(collect().empty());

  ranks.pass(10s);
  all = collect();
  ASSERT_EQ(all.size(), 1U) << "a sign of life";
  EXPECT_TRUE(all[0].calls.empty());
}

TEST_F(HistoryTest, Collector_TellsHowARunEndedAndBeginsTheNext) {
  WatchedRanks ranks(2);
  HistoryCollector collector("c");
  const auto collect = [&] {
    return collector.collect(
        ranks.service, ranks.now,
        kNoon + std::chrono::duration_cast<std::chrono::microseconds>(ranks.now));
  };
  ranks.join_all();
  ranks.tell_all();
  ASSERT_EQ(collect().size(), 1U);
  ranks.wait(0);
  ranks.close(1);
  ranks.quiet.insert(RankSet::of({1}));
  std::vector<HistoryNote> notes;
  std::string word;
  for (int second = 0; second < 30; ++second) {
    ranks.pass(1s);
    for (const RunNews& one : collect()) {
      notes.insert(notes.end(), one.notes.begin(), one.notes.end());
      word = one.run.word;
    }
  }
  EXPECT_EQ(word, "LOST");
  ASSERT_EQ(notes.size(), 2U) << "each once";
  EXPECT_EQ(notes[0].kind, "lost");
  EXPECT_EQ(notes[1].kind, "verdict RANK_LOST");
  ranks.close(0);
  auto all = collect();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].run.ended);
  EXPECT_EQ(all[0].run.watched, 1);
  ranks.now += 100s;
  (void)collect();  // rank 0 is lost, too
  ranks.now += 100s;
  EXPECT_TRUE(collect().empty()) << "nothing more to say";

  for (Identity& identity : ranks.identities)
    identity.incarnation = Incarnation(static_cast<std::uint64_t>(identity.incarnation) + 100);
  ranks.join_all();
  all = collect();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].run.watched, 2);
  EXPECT_FALSE(all[0].run.ended);
}

TEST_F(HistoryTest, Writer_WritesAndSaysWhatItCannot) {
  {
    HistoryWriter writer(root_.string());
    EXPECT_TRUE(writer.idle());
    writer.give({news("c", 1, "train")});
    ASSERT_TRUE(writer.wait_idle(10s));
    EXPECT_TRUE(writer.errors().empty());
  }
  EXPECT_EQ(open()->runs("").value().size(), 1U);
  ::chmod(root_.c_str(), 0755);
  HistoryWriter writer(root_.string());
  writer.give({news("c", 2, "train")});
  const auto said = said_by(writer);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_FALSE(writer.wait_idle(1500ms)) << "it keeps trying";
  EXPECT_TRUE(writer.errors().empty()) << "and says so once";
  EXPECT_NE(said[0].find("the history is not written"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("chmod 700"), std::string::npos) << said[0];
  ::chmod(root_.c_str(), 0700);
  ASSERT_TRUE(writer.wait_idle(10s));
  EXPECT_EQ(open()->runs("").value().size(), 2U);
}

// Whatever keeps a write waiting, whoever gives goes on, and leaves in time.
TEST_F(HistoryTest, WriteThatTakesLong_HoldsNobodyUp) {
  open();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((root_ / HistoryStore::kFile).c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto began = std::chrono::steady_clock::now();
  {
    HistoryWriter writer(root_.string());
    writer.give({news("c", 1, "train")});
    EXPECT_FALSE(writer.idle());
    EXPECT_LT(std::chrono::steady_clock::now() - began, 3s);
    EXPECT_FALSE(writer.wait_idle(300ms));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 4500ms);
  HistoryWriter writer(root_.string());
  writer.give({news("c", 2, "train")});
  EXPECT_FALSE(writer.wait_idle(100ms));
  ASSERT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_TRUE(writer.wait_idle(10s));
  EXPECT_TRUE(writer.errors().empty());
}

TEST_F(HistoryTest, FileDamagedUnderway_IsSetAsideAndTheWriterGoesOn) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  HistoryWriter writer(root_.string());
  int set_aside = 0;
  for (int round = 0; round < 25; ++round) {
    writer.give({news("c", 100 + round, "train", {random_call(0)})});
    ASSERT_TRUE(writer.wait_idle(10s));
    const fs::path file = root_ / HistoryStore::kFile;
    {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      for (int n = 0; n < 40; ++n) {
        bytes.seekp(static_cast<std::streamoff>(random_() % fs::file_size(file)));
        bytes.put(static_cast<char>(random_()));
      }
    }
    fs::resize_file(file.string() + "-wal", 0);
    // Another coordinator finds the damage, or this one does; both go on with the new file.
    told_.clear();
    auto other = open();
    ASSERT_TRUE(other == nullptr || other->write({news("d", round + 1, "train")}));
    set_aside += !told_.empty();
    writer.give({news("c", 1000 + round, "train", {random_call(1)})});
    const bool written = writer.wait_idle(10s);
    const auto said = writer.errors();
    ASSERT_TRUE(written) << (said.empty() ? "" : said.front());
    if (!told_.empty()) {
      EXPECT_EQ(other->runs("train").value().size(), 2U);
    }
    for (const std::string& line : said) set_aside += line.find("was renamed to") != line.npos;
    for (const auto& entry : fs::directory_iterator(root_))
      if (entry.path().filename().string().find(".bad") != std::string::npos) fs::remove(entry);
  }
  EXPECT_GT(set_aside, 0);
}

// Two jobs, four coordinators at once, killed at any moment: what one wrote before the other calls
// is there, and each call is whole.
TEST_F(HistoryTest, KilledCoordinators_LoseNothingCommitted) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  open();
  std::map<std::string, std::size_t> floor;
  const auto some_wrote = [&] { return floor["one"] > 40 && floor["two"] > 40; };
  for (int round = 0; round < 40 || (!some_wrote() && round < 400); ++round) {
    std::vector<pid_t> writers;
    for (int writer = 0; writer < 4; ++writer) {
      const pid_t pid = ::fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        auto store = HistoryStore::open({.directory = root_.string()});
        if (!store) ::_exit(1);
        const std::string name = fmt::format("{}.{}", round, writer);
        for (std::uint64_t serial = 0;; ++serial) {
          HistoryCall call = random_call(serial);
          call.reasons = {{"0-3", std::string(serial % 300, 'r')}};
          if (!(*store)->write({news(name, 1, writer % 2 == 0 ? "one" : "two", {call})}))
            ::_exit(1);
          std::ofstream(root_ / name) << serial + 1 << " ";
        }
      }
      writers.push_back(pid);
    }
    ::usleep(static_cast<useconds_t>(5000 + random_() % 30000));
    for (const pid_t pid : writers) {
      ::kill(pid, SIGKILL);
      int status = 0;
      ::waitpid(pid, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status)) << "a writer failed by itself";
    }
    auto store = open(Database::Access::Read);
    for (const HistoryRun& run : store->runs("").value()) {
      if (!run.coordinator.starts_with(fmt::format("{}.", round))) continue;
      const auto calls = store->calls(run).value();
      std::size_t committed = 0;
      std::ifstream(root_ / run.coordinator) >> committed;
      ASSERT_GE(calls.size(), committed);
      for (std::size_t n = 0; n < calls.size(); ++n) {
        ASSERT_EQ(calls[n].serial, n) << "a prefix";
        ASSERT_EQ(calls[n].reasons.size(), 1U) << "whole";
        ASSERT_EQ(calls[n].reasons[0].text.size(), n % 300);
      }
      floor[run.job] += calls.size();
    }
  }
  EXPECT_GT(floor["one"], 40U);
  EXPECT_GT(floor["two"], 40U);
  EXPECT_TRUE(told_.empty()) << told_.front();
}

TEST_F(HistoryTest, FullDisk_KeepsWhatIsThereAndGoesOnWhereThereIsRoomAgain) {
  const fs::path disk = root_ / "disk";
  fs::create_directory(disk);
  if (::mount("lockstep", disk.c_str(), "tmpfs", MS_NOSUID, "size=1m,mode=700") != 0)
    GTEST_SKIP() << "SKIPPED ALOUD: no file system can be mounted here";
  {
    HistoryWriter writer(disk.string());
    writer.give({news("c", 1, "train")});
    ASSERT_TRUE(writer.wait_idle(10s));
    std::ofstream(disk / "filler") << std::string(2 << 20, 'x');
    std::vector<HistoryCall> calls;
    for (std::uint64_t n = 0; n < 300; ++n) {
      calls.push_back(random_call(n));
      calls.back().reasons = {{"0", std::string(900, 'r')}};
    }
    writer.give({news("c", 2, "train", calls)});
    const auto said = said_by(writer);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_FALSE(writer.wait_idle(1500ms));
    EXPECT_TRUE(writer.errors().empty());
    EXPECT_NE(said[0].find(disk.string()), std::string::npos) << said[0];
    fs::remove(disk / "filler");
    EXPECT_TRUE(writer.wait_idle(10s));
    auto store = HistoryStore::open({.directory = disk.string()}).value();
    EXPECT_EQ(store->runs("train").value().size(), 2U);
  }
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace lockstep::coordinator::history_store_test
