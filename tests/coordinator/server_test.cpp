// The coordinator on real sockets: what it tells of jobs, and what it bears.
#include <atomic>
#include <csignal>
#include <map>
#include <mutex>

#include "running_server.h"
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/coordinator/client/ask_status.h>
#include <lockstep/coordinator/client/publisher.h>

namespace lockstep::coordinator::server_test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using collectives::HandshakeType;
using collectives::kHeaderBytes;
using collectives::Mac;
using collectives::SealedMessageWriter;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Identity identity(int rank, int size, const std::string& job = "train") {
  return {.job = job,
          .rank = {rank},
          .size = size,
          .incarnation = Incarnation(static_cast<std::uint64_t>(rank) + 1),
          .host = "n0",
          .host_id = 1,
          .pid = 1000 + rank,
          .build = "b1"};
}

PublisherOptions publishing(const Endpoint& to, int rank, int size) {
  return {.coordinator = to,
          .secret = test_secret(),
          .identity = identity(rank, size),
          .say = [](const std::string&) {},
          .look = 10ms,
          .every = 50ms,
          .first_pause = 20ms,
          .last_pause = 100ms};
}

Json status_of(const Endpoint& endpoint) {
  const auto document = ask_status(endpoint, test_secret(), 4s);
  return document ? Json::parse(*document) : Json{};
}

/// Looks until `holds` does, ten seconds at most.
template <class Holds>
bool comes_true(const Holds& holds) {
  const SystemClock clock;
  for (const Instant until = clock.now() + 10s; clock.now() < until;) {
    if (holds()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

/// Asks until `holds` does, ten seconds at most.
template <class Holds>
bool status_comes_to(const Endpoint& endpoint, const Holds& holds) {
  return comes_true([&] {
    const Json status = status_of(endpoint);
    return !status.is_null() && !status["jobs"].empty() && holds(status["jobs"][0]);
  });
}

/// Connects as a rank, and stays.
struct RawRank {
  RawSocket socket;
  Session session;
  RawRank(const Endpoint& to, std::uint8_t nonce_value, int receive_buffer = 0)
      : socket(to, receive_buffer), session(Session::Side::Client, test_secret(), [nonce_value] {
          Nonce nonce;
          nonce.fill(std::byte{nonce_value});
          return nonce;
        }()) {}
  bool join(const Identity& as) {
    return shake_hands(socket, session) && socket.write(session.seal(Join{as}));
  }
};

TEST(Server, RanksOnTheBoard_AreSeenByWhoeverAsks) {
  RunningServer server;
  const auto board = Board::in_process(2);
  const int world = board->entry(kWorldGroup, RankSet::all(2));
  const SystemClock clock;
  for (int r = 0; r < 2; ++r) board->seat(Rank{r}).register_process(1000 + r, 1, clock.now());
  auto first = Publisher::start(*board, publishing(server.endpoint(), 0, 2)).value();
  auto second = Publisher::start(*board, publishing(server.endpoint(), 1, 2)).value();
  board->seat(Rank{0}).note("call 6 of train_step", clock.now());
  board->seat(Rank{0}).begin(OperationKind::Vote, world, 12, clock.now());
  board->seat(Rank{0}).wait(true);
  EXPECT_TRUE(status_comes_to(server.endpoint(), [](const Json& job) {
    return job["operations"].size() == 1 && job["operations"][0]["in"] == "0" &&
           job["operations"][0]["not_in"] == "1" && job["operations"][0]["ordinal"] == 12 &&
           job["doing"][0]["event"] == "call 6 of train_step";
  }));
  ASSERT_TRUE(comes_true([&] { return first->joined() && second->joined(); }));
  for (int r = 0; r < 2; ++r) board->seat(Rank{r}).finish();
  first.reset();
  second.reset();
  EXPECT_TRUE(status_comes_to(server.endpoint(), [](const Json& job) {
    return job["finished"] == "0-1" && job["findings"].empty();
  }));
  EXPECT_TRUE(server.lines().empty()) << server.lines()[0];
}

TEST(Server, GraphOfAToldCall_IsAskedOfTheFirstRankThatTells) {
  RunningServer server;
  CallEvent event;
  event.frame = "train_step";
  event.graph = {0, 7};
  RawRank first(server.endpoint(), 1), second(server.endpoint(), 2);
  ASSERT_TRUE(first.join(identity(0, 2)) && second.join(identity(1, 2)));
  const auto hears = [](RawRank& rank, std::size_t messages) {
    std::vector<Message> all;
    while (all.size() < messages) {
      const Bytes bytes = rank.socket.read_some();
      if (bytes.empty()) break;
      const auto taken = rank.session.take(bytes);
      all.insert(all.end(), taken.messages.begin(), taken.messages.end());
    }
    return all;
  };
  ASSERT_TRUE(first.socket.write(first.session.seal(event)));
  EXPECT_EQ(hears(first, 2), (std::vector<Message>{Joined{}, GraphWanted{{0, 7}}}));
  ASSERT_TRUE(first.socket.write(first.session.seal(GraphText{{0, 7}, "n0 = input"})));
  ASSERT_TRUE(second.socket.write(second.session.seal(event)));
  event.graph = {0, 8};
  ASSERT_TRUE(second.socket.write(second.session.seal(event)));
  EXPECT_EQ(hears(second, 2), (std::vector<Message>{Joined{}, GraphWanted{{0, 8}}}));
}

/// Two ranks wait for a third, which says that it is there and does nothing.
TEST(Server, Verdict_ReachesRanksThatWaitAndNoOther) {
  RunningServer server;
  const auto board = Board::in_process(3);
  const int world = board->entry(kWorldGroup, RankSet::all(3));
  const SystemClock clock;
  std::mutex mutex;
  std::map<int, Status> obeyed;
  std::vector<std::unique_ptr<Publisher>> publishers;
  for (int r = 0; r < 3; ++r) {
    board->seat(Rank{r}).register_process(1000 + r, 1, clock.now());
    auto options = publishing(server.endpoint(), r, 3);
    options.identity.deadline = 1s;
    options.obey = [&mutex, &obeyed, r](const Status& verdict) {
      const std::lock_guard lock(mutex);
      obeyed.emplace(r, verdict);
    };
    publishers.push_back(Publisher::start(*board, options).value());
  }
  for (int r = 0; r < 2; ++r) {
    board->seat(Rank{r}).begin(OperationKind::Vote, world, 1, clock.now());
    board->seat(Rank{r}).wait(true);
  }
  const auto heard = [&] {
    const std::lock_guard lock(mutex);
    return obeyed.size();
  };
  for (int tries = 0; tries < 1000 && heard() < 2; ++tries) std::this_thread::sleep_for(10ms);
  publishers.clear();
  ASSERT_EQ(obeyed.size(), 2U);
  EXPECT_FALSE(obeyed.contains(2)) << "it does not wait";
  EXPECT_EQ(obeyed.at(0).code, Code::Stuck);
  EXPECT_NE(obeyed.at(0).message.find("Rank 2 "), std::string::npos) << obeyed.at(0).message;
}

TEST(Server, LostConnection_IsNamedWithinATenthOfASecond) {
  const SystemClock clock;
  Duration least = 10s;  // of up to 25, for a busy machine
  for (int i = 0; i < 25 && least >= 100ms; ++i) {
    RunningServer server;
    auto lost = std::make_unique<RawRank>(server.endpoint(), 1);
    RawRank stays(server.endpoint(), 2);
    ASSERT_TRUE(lost->join(identity(0, 2)) && stays.join(identity(1, 2)));
    ASSERT_TRUE(
        status_comes_to(server.endpoint(), [](const Json& job) { return job["live"] == "0-1"; }));
    const Instant closed = clock.now();
    lost.reset();
    ASSERT_TRUE(server.says("WARN lost job=train: Rank 0 (host n0)"));
    least = std::min<Duration>(least, clock.now() - closed);
  }
  EXPECT_LT(least, 100ms);
}

/// Dropping a connection once read the table's own pointer to it after erasing it.
TEST(Server, RankThatReconnects_TakesOverAndItsEarlierConnectionIsClosed) {
  RunningServer server;
  RawRank first(server.endpoint(), 1), again(server.endpoint(), 2);
  ASSERT_TRUE(first.join(identity(0, 1)));
  ASSERT_TRUE(
      status_comes_to(server.endpoint(), [](const Json& job) { return job["live"] == "0"; }));
  ASSERT_TRUE(again.join(identity(0, 1)));
  EXPECT_TRUE(first.socket.closed_within(5s));
  ASSERT_TRUE(again.socket.write(again.session.seal(SlotReport{.event = "again"})));
  EXPECT_TRUE(status_comes_to(server.endpoint(), [](const Json& job) {
    return job["live"] == "0" && job["doing"][0]["event"] == "again" && job["findings"].empty();
  }));
}

TEST(Server, OtherBuild_IsRefusedAndBothSidesHearWhy) {
  RunningServer server;
  const auto board = Board::in_process(2);
  auto first = Publisher::start(*board, publishing(server.endpoint(), 0, 2)).value();
  ASSERT_TRUE(
      status_comes_to(server.endpoint(), [](const Json& job) { return job["live"] == "0"; }));
  std::mutex mutex;
  std::vector<std::string> heard;
  PublisherOptions options = publishing(server.endpoint(), 1, 2);
  options.identity.build = "b2";
  options.say = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    heard.push_back(line);
  };
  auto second = Publisher::start(*board, std::move(options)).value();
  EXPECT_TRUE(
      server.says("rank 1 (host n0, process 1001) of the job train runs build b2, but its "
                  "rank 0 (host n0) run build b1"));
  ASSERT_TRUE(comes_true([&] {
    const std::lock_guard lock(mutex);
    return !heard.empty();
  }));
  std::this_thread::sleep_for(300ms);  // several attempts
  second.reset();
  ASSERT_EQ(heard.size(), 1U) << "said once";
  EXPECT_NE(heard[0].find("build b2"), std::string::npos);
}

TEST(Server, WrongToken_IsRefusedAndSaidOnBothSides) {
  RunningServer server;
  const auto refused = ask_status(server.endpoint(), Secret(32, std::byte{'x'}), 4s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Version);
  EXPECT_NE(refused.error().message.find("the same secret"), std::string::npos);
  EXPECT_TRUE(server.says("the same secret"));
}

TEST(Server, GarbageAndOversizeAndOtherVersions_EndTheConnectionAtOnce) {
  RunningServer server;
  Bytes oversize = SealedMessageWriter::plain(HandshakeType::Hello, {});
  oversize[11] = std::byte{0xFF};
  Bytes later = SealedMessageWriter::plain(HandshakeType::Hello, Nonce{});
  later[4] = std::byte{collectives::kProtocolVersion + 1};
  const std::pair<Bytes, Refusal> cases[] = {
      {bytes_of("LOCK / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Refusal::Magic},
      {oversize, Refusal::Size},
      {later, Refusal::Version},
      {SealedMessageWriter::plain(HandshakeType{static_cast<std::uint8_t>(MessageType::Join)}, {}),
       Refusal::Order},
      {SealedMessageWriter::plain(HandshakeType::Hello, {}), Refusal::Malformed}};
  for (const auto& [bytes, why] : cases) {
    const RawSocket socket(server.endpoint());
    ASSERT_TRUE(socket.write(bytes));
    const Bytes reply = socket.read_to_end();
    ASSERT_EQ(reply.size(), kHeaderBytes + 1) << refusal_text(why);
    EXPECT_EQ(reply[5], std::byte{static_cast<std::uint8_t>(HandshakeType::Rejected)});
    EXPECT_EQ(reply.back(), std::byte{static_cast<std::uint8_t>(why)}) << refusal_text(why);
  }
  EXPECT_FALSE(status_of(server.endpoint()).is_null()) << "it goes on";
}

TEST(Server, ReplayedFrame_EndsTheConnection) {
  RunningServer server;
  RawRank rank(server.endpoint(), 1);
  ASSERT_TRUE(rank.join(identity(0, 2)));
  const Bytes report = rank.session.seal(SlotReport{.event = "once"});
  ASSERT_TRUE(rank.socket.write(report));
  ASSERT_TRUE(status_comes_to(server.endpoint(),
                              [](const Json& job) { return job["doing"][0]["event"] == "once"; }));
  ASSERT_TRUE(rank.socket.write(report));
  EXPECT_TRUE(rank.socket.closed_within(5s));
  EXPECT_TRUE(server.says("a message came twice or out of order"));
}

TEST(Server, RecordedConnection_IsWorthNothingTheNextTime) {
  RunningServer server;
  Bytes recorded;
  {
    RawRank rank(server.endpoint(), 1);
    ASSERT_TRUE(rank.join(identity(0, 2)));
    Session again(Session::Side::Client, test_secret(), [] {
      Nonce nonce;
      nonce.fill(std::byte{1});
      return nonce;
    }());
    recorded = again.open();
  }
  const RawSocket thief(server.endpoint());
  ASSERT_TRUE(thief.write(recorded));  // the same nonce, but the coordinator's is another
  ASSERT_TRUE(thief.write(SealedMessageWriter::plain(HandshakeType::Proof, Mac{})));
  EXPECT_TRUE(thief.closed_within(5s));
  EXPECT_TRUE(server.says("the same secret"));
}

TEST(Server, StrangersWhoDawdle_AreDroppedAndKeepNobodyOut) {
  ServerOptions options;
  options.handshake = 1s;
  options.most_strangers = 8;
  RunningServer server(options);
  std::vector<RawSocket> idle;
  for (int i = 0; i < 40; ++i) idle.emplace_back(server.endpoint());
  EXPECT_FALSE(status_of(server.endpoint()).is_null()) << "40 strangers at 8 places keep it out";
  const Bytes hello = SealedMessageWriter::plain(HandshakeType::Hello, Nonce{});
  const RawSocket drips(server.endpoint());
  const SystemClock clock;
  const Instant began = clock.now();
  bool open = true;  // a byte every 300 ms: more than 15 seconds for one frame
  for (std::size_t i = 0; i < hello.size() && open; ++i)
    open = drips.write(std::span(hello).subspan(i, 1)) && !drips.closed_within(300ms);
  EXPECT_FALSE(open);
  EXPECT_LT(clock.now() - began, 10s);
  for (const RawSocket& socket : idle) EXPECT_TRUE(socket.closed_within(2s));
  EXPECT_TRUE(server.says("has not proven the secret in time"));
}

TEST(Server, SignalThatComesBeforeItRuns_EndsIt) {
  ServerOptions options;
  options.secret = test_secret();
  options.say = [](const std::string&) {};
  const auto server = Server::listen(std::move(options)).value();
  std::raise(SIGTERM);
  server->run();  // else nobody would get here
}

TEST(Server, ReaderThatTakesNothing_IsDroppedAndHoldsNobodyUp) {
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ServerOptions options;
  options.slow_reader = 6s;
  RunningServer server(options);
  constexpr int kRanks = 1000;  // a document that no socket's buffers hold
  std::vector<RawRank> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back(server.endpoint(), 1);
    ASSERT_TRUE(ranks.back().join(identity(r, kRanks))) << r;
    ASSERT_TRUE(ranks.back().socket.write(
        ranks.back().session.seal(SlotReport{.event = std::to_string(r).append(90, 'x')})));
  }
  ASSERT_TRUE(status_comes_to(server.endpoint(), [](const Json& job) {
    return job["live"] == "0-999" && job["doing"].size() == kRanks;
  }));
  RawRank slow(server.endpoint(), 2, 2048);
  ASSERT_TRUE(shake_hands(slow.socket, slow.session));
  ASSERT_TRUE(slow.socket.write(slow.session.seal(StatusRequest{})));
  const SystemClock clock;
  const Instant asked = clock.now();
  EXPECT_EQ(status_of(server.endpoint())["jobs"][0]["size"], kRanks);
  EXPECT_LT(clock.now() - asked, 6s);
  EXPECT_TRUE(server.says("it does not read"));
}

TEST(Publisher, NobodyThere_IsSaidOnceAndEndsInTime) {
  const auto board = Board::in_process(1);
  Endpoint nowhere;
  {
    RunningServer gone;
    nowhere = gone.endpoint();
  }
  std::atomic<int> said{0};
  PublisherOptions options = publishing(nowhere, 0, 1);
  options.say = [&](const std::string&) { ++said; };
  auto publisher = Publisher::start(*board, std::move(options)).value();
  ASSERT_TRUE(comes_true([&] { return said > 0; }));
  std::this_thread::sleep_for(300ms);  // several attempts
  const SystemClock clock;
  const Instant before = clock.now();
  publisher.reset();
  EXPECT_LT(clock.now() - before, 2s);
  EXPECT_EQ(said.load(), 1);
}

TEST(Publisher, SomethingElseListensThere_IsSaidOnce) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  socklen_t length = sizeof any;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&any), &length);
  const Endpoint silent{"127.0.0.1", ntohs(any.sin_port)};
  const auto asked = ask_status(silent, test_secret(), 300ms);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Code::Stuck);
  std::atomic<int> said{0};
  const auto board = Board::in_process(1);
  PublisherOptions options = publishing(silent, 0, 1);
  options.patience = 100ms;
  options.say = [&](const std::string&) { ++said; };
  auto publisher = Publisher::start(*board, std::move(options)).value();
  ASSERT_TRUE(comes_true([&] { return said > 0; }));
  std::this_thread::sleep_for(300ms);  // several attempts
  publisher.reset();
  EXPECT_EQ(said.load(), 1);
  ::close(listener);
}

TEST(Publisher, CoordinatorThatComesBack_IsFoundAgain) {
  const auto board = Board::in_process(1);
  std::atomic<int> said{0};
  Endpoint where;
  std::unique_ptr<Publisher> publisher;
  {
    RunningServer first;
    where = first.endpoint();
    PublisherOptions options = publishing(where, 0, 1);
    options.say = [&](const std::string&) { ++said; };
    publisher = Publisher::start(*board, std::move(options)).value();
    ASSERT_TRUE(status_comes_to(where, [](const Json& job) { return job["live"] == "0"; }));
  }
  while (publisher->joined()) std::this_thread::sleep_for(10ms);
  ServerOptions same;
  same.listen = where;
  RunningServer second(same);
  EXPECT_TRUE(status_comes_to(where, [](const Json& job) { return job["live"] == "0"; }));
  EXPECT_TRUE(comes_true([&] { return said.load() >= 2; }));
  EXPECT_EQ(said.load(), 2) << "that it is gone, and that it is there again";
}

}  // namespace
}  // namespace lockstep::coordinator::server_test
