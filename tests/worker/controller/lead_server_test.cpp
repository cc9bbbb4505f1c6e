// Who is let in at worker 0's door, and what the others hear.
#include <array>
#include <atomic>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/collectives/wire/sealed_session.h>
#include <lockstep/worker/controller/controller_session.h>
#include <lockstep/worker/controller/workers/lead.h>

namespace lockstep::worker::lead_server_test {
namespace {

using collectives::random_secret;
using collectives::Secret;

/// A server, and a worker 0 that greets and says that all is done.
class Door {
 public:
  explicit Door(Duration patience = std::chrono::minutes(5),
                Duration handshake = std::chrono::seconds(20)) {
    LeadServerOptions options;
    options.secret = secret;
    options.handshake = handshake;
    options.linger = std::chrono::milliseconds(100);
    options.alive = std::chrono::milliseconds(50);
    auto server = LeadServer::listen(std::move(options));
    EXPECT_TRUE(server) << server.error().text();
    const std::shared_ptr<LeadServer> shared = *std::move(server);
    at = shared->endpoint();
    worker_ = std::thread([this, shared, patience] {
      Lead lead(shared, patience);
      while (!over_ && !lead.given_up()) {
        const Lead::Next next = lead.next(std::chrono::milliseconds(10));
        for (const auto& given : next.commands)
          if (const auto* settle = std::get_if<Settle>(&given.command))
            lead.send(Done{settle->question});
        lead.done();
        if (next.came)
          lead.greet({.workers = 2, .calls = 0, .next = {}, .frames = {}, .tensors = {}});
      }
      gave_up = lead.given_up();
    });
  }
  ~Door() { end(); }
  void end() {
    over_ = true;
    if (worker_.joinable()) worker_.join();
  }
  void wait() { worker_.join(); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  Result<std::unique_ptr<ControllerSession>> come() {
    return ControllerSession::open(at, secret, {});
  }
  Secret secret = random_secret();
  collectives::Endpoint at;
  std::optional<Status> gave_up;

 private:
  std::atomic<bool> over_{false};
  std::thread worker_;
};

Result<Done> settle(ControllerSession& session) {
  return session.ask<Done>(Settle{session.new_question()}, "a test");
}

/// A socket.
int connected(const collectives::Endpoint& at) {
  const int file = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(at.port);
  ::inet_pton(AF_INET, at.address.c_str(), &where.sin_addr);
  EXPECT_EQ(::connect(file, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  return file;
}

TEST(LeadServer, ControllerWithTheSecret_IsGreetedAndHeard) {
  Door door;
  auto session = door.come();
  ASSERT_TRUE(session) << session.error().text();
  EXPECT_EQ((*session)->held().workers, 2U);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(settle(**session));
}

TEST(LeadServer, ControllerWithAnotherSecret_IsRefused) {
  Door door;
  const auto session = ControllerSession::open(door.at, random_secret(), {});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Code::Version);
  EXPECT_TRUE(door.come()) << "the door stays open";
}

TEST(LeadServer, ClientOfACoordinatorWithTheSecret_IsRefused) {
  using collectives::SealedSession;
  Door door;
  const int file = connected(door.at);
  SealedSession client(SealedSession::Side::Client, door.secret, collectives::random_nonce());
  std::optional<collectives::Refusal> refusal;
  Bytes say = client.open();
  std::array<std::byte, 4096> answer{};
  while (!refusal) {
    if (!say.empty()) (void)::send(file, say.data(), say.size(), MSG_NOSIGNAL);
    const ssize_t n = ::recv(file, answer.data(), answer.size(), 0);
    if (n <= 0) break;
    auto taken = client.take(std::span(answer).first(static_cast<std::size_t>(n)));
    refusal = taken.refusal, say = std::move(taken.reply);
    ASSERT_FALSE(client.established());
  }
  ::close(file);
  EXPECT_TRUE(refusal);
}

TEST(LeadServer, SecondController_IsRefusedUntilTheFirstHasLeft) {
  Door door;
  auto first = door.come();
  ASSERT_TRUE(first);
  const auto second = door.come();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::BadInput);
  EXPECT_NE(second.error().message.find("have a controller"), std::string::npos);
  EXPECT_TRUE(settle(**first));
  first->reset();
  for (int tries = 0; tries < 1000; ++tries) {
    auto third = door.come();
    if (!third) continue;
    EXPECT_TRUE(settle(**third));
    return;
  }
  FAIL() << "the first one is not seen to have left";
}

/// Sends bytes and reads until the other side closes.
std::size_t answered(const collectives::Endpoint& at, std::span<const std::byte> bytes) {
  const int file = connected(at);
  EXPECT_EQ(::send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  std::array<char, 4096> answer{};
  std::size_t all = 0;
  for (ssize_t n = 0; (n = ::recv(file, answer.data(), answer.size(), 0)) > 0;)
    all += static_cast<std::size_t>(n);
  ::close(file);
  return all;
}

TEST(LeadServer, GarbageAndSilence_AreEndedAndHarmNobody) {
  Door door(std::chrono::minutes(5), std::chrono::seconds(1));
  auto session = door.come();
  ASSERT_TRUE(session);
  const std::string http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  (void)answered(door.at, std::as_bytes(std::span(http)));
  (void)answered(door.at, Bytes(100'000, std::byte{0xff}));
  EXPECT_EQ(answered(door.at, {}), 0U) << "who says nothing is closed after a time";
  EXPECT_TRUE(settle(**session));
}

TEST(LeadServer, ControllerOfAnotherVersion_IsToldBoth) {
  Door door;
  auto link = ControllerLink::open(door.at, door.secret, std::chrono::seconds(60));
  ASSERT_TRUE(link);
  (*link)->send(encode(Command(Hello{kControllerVersion + 1})));
  (*link)->wait(std::chrono::seconds(60));
  const auto replies = (*link)->take();
  ASSERT_EQ(replies.size(), 1U);
  const Status& why = std::get<Refused>(replies[0]).why;
  EXPECT_EQ(why.code, Code::Version);
  EXPECT_NE(why.message.find("version 1 of"), std::string::npos) << why.message;
  EXPECT_NE(why.message.find("version 2;"), std::string::npos) << why.message;
}

TEST(LeadServer, CommandThatOnlyWorkersGive_EndsTheConnection) {
  Door door;
  auto session = door.come();
  ASSERT_TRUE(session);
  EXPECT_TRUE((*session)->give(EndJob{{Code::Gone, "over", {}, {}}}, "the end"));
  const auto after = settle(**session);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::RankLost);
}

TEST(Lead, NoControllerInTime_IsOneSentence) {
  Door door(std::chrono::milliseconds(50));
  door.wait();
  ASSERT_TRUE(door.gave_up);
  EXPECT_EQ(door.gave_up->code, Code::Gone);
  EXPECT_EQ(door.gave_up->message, "no controller came within 0.05 s; the workers end");
}

TEST(ControllerSession, WorkersThatSayNothing_AreNamedAfterTheDeadline) {
  // Somebody listens and never answers.
  const int file = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof where;
  ASSERT_EQ(::bind(file, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  ASSERT_EQ(::listen(file, 4), 0);
  ASSERT_EQ(::getsockname(file, reinterpret_cast<sockaddr*>(&where), &length), 0);
  const auto session =
      ControllerSession::open({"127.0.0.1", ntohs(where.sin_port)}, random_secret(),
                              {.deadline = std::chrono::milliseconds(100)});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Code::Stuck);
  ::close(file);
}

}  // namespace
}  // namespace lockstep::worker::lead_server_test
