// What a watchdog says to the coordinator before it ends its process.
#include <filesystem>
#include <future>

#include "running_server.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/coordinator/client/publisher.h>
#include <lockstep/coordinator/store/history_store.h>

namespace lockstep::coordinator::last_word_test {
namespace {

using namespace std::chrono_literals;

/// One rank, its coordinator and what that keeps.
class LastWord : public testing::Test {
 protected:
  LastWord() { board_->seat(Rank{0}).register_process(1000, 1, clock_.now()); }
  ~LastWord() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::unique_ptr<Publisher> publisher(const Endpoint& to) const {
    return Publisher::start(*board_, {.coordinator = to,
                                      .secret = test_secret(),
                                      .identity = {.job = "train",
                                                   .size = 1,
                                                   .incarnation = Incarnation(1),
                                                   .host = "n0",
                                                   .pid = 1000,
                                                   .build = "b1"},
                                      .say = [](const std::string&) {}})
        .value();
  }
  [[nodiscard]] std::optional<HistoryRun> kept() const {
    const auto store = HistoryStore::open({.directory = folder_, .access = Database::Access::Read});
    if (!store) return std::nullopt;
    const auto runs = (*store)->runs("train");
    if (!runs || runs->empty()) return std::nullopt;
    return runs->front();
  }
  const Status stuck_{Code::Stuck, "Rank 0 has shown no progress.", {}, {}};
  const SystemClock clock_;
  const std::unique_ptr<Board> board_ = Board::in_process(1);
  const std::string folder_ = (std::filesystem::temp_directory_path() /
                               ("lockstep-last-word-" + std::to_string(::getpid())))
                                  .string();
};

/// The process that hosts the coordinator may be gone a moment later.
TEST_F(LastWord, IsInTheHistoryWhenItHasBeenSaid) {
  ServerOptions keeping;
  keeping.store = folder_;
  RunningServer server(std::move(keeping));
  const auto rank = publisher(server.endpoint());
  for (int tries = 0; tries < 1000 && !kept(); ++tries) std::this_thread::sleep_for(10ms);
  ASSERT_TRUE(kept());
  ASSERT_EQ(kept()->word, "OK");
  // It gives up after two seconds, which on a busy machine proves nothing.
  for (int tries = 0; tries < 5; ++tries) {
    const Instant before = clock_.now();
    rank->last_word(stuck_);
    if (clock_.now() - before < 1900ms) break;
  }
  EXPECT_EQ(kept()->word, "STUCK");
  EXPECT_EQ(kept()->sentence, stuck_.message);
}

TEST_F(LastWord, IsAnsweredWhereNoHistoryIsKeptOrCanBe) {
  for (const char* store : {"", "/dev/null/none"}) {
    ServerOptions options;
    options.store = store;
    RunningServer server(std::move(options));
    const auto rank = publisher(server.endpoint());
    for (int tries = 0; tries < 1000 && !rank->joined(); ++tries) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(rank->joined());
    Duration least = 10s;  // of five, for a busy machine
    for (int i = 0; i < 5; ++i) {
      const Instant before = clock_.now();
      rank->last_word(stuck_);
      least = std::min<Duration>(least, clock_.now() - before);
    }
    EXPECT_LT(least, 1900ms) << "else nothing came and it gave up: " << store;
  }
}

// A coordinator that had no turn meanwhile finds the goodbye and the order to end at once.
TEST_F(LastWord, GoodbyeThatLiesInTheSocketAtTheEnd_IsInTheHistory) {
  std::promise<void> busy, go;
  ServerOptions options;
  options.secret = test_secret();
  options.store = folder_;
  options.signals = false;
  options.say = [](const std::string&) {};
  options.record = [&, first = true](const std::string&) mutable {
    if (!std::exchange(first, false)) return;
    busy.set_value();
    go.get_future().wait();
  };
  const auto server = Server::listen(std::move(options)).value();
  std::thread runs([&] { server->run(); });
  auto rank = publisher(server->endpoint());
  busy.get_future().wait();
  rank.reset();
  server->stop();
  go.set_value();
  runs.join();
  ASSERT_TRUE(kept());
  EXPECT_TRUE(kept()->ended);
}

TEST_F(LastWord, WaitsForNoCoordinatorThatIsNotThere) {
  const auto rank = publisher({"127.0.0.1", 1});
  const Instant before = clock_.now();
  rank->last_word(stuck_);
  EXPECT_LT(clock_.now() - before, 1900ms);
}

}  // namespace
}  // namespace lockstep::coordinator::last_word_test
