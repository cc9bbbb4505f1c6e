// Messages and the handshake, byte by byte and against who does not play by the rules.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "../collectives/golden_bytes.h"

#include <lockstep/coordinator/messages/session.h>

namespace lockstep::coordinator::wire_test {
namespace {

using collectives::Encryption;
using collectives::encryption_from;
using collectives::encryption_to;
using collectives::encryption_wanted;
using collectives::encryption_warning;
using collectives::HandshakeType;
using collectives::Mac;
using collectives::SealedMessageWriter;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
Nonce nonce(std::uint8_t value) {
  Nonce out;
  out.fill(std::byte{value});
  return out;
}
const Secret kSecret = bytes_of("a secret of 28 bytes or more");

RoundCounts some_rounds() {
  RoundCounts rounds;
  std::uint64_t value = 100;
  for (std::uint64_t* number : rounds.numbers()) *number = ++value;
  return rounds;
}
SlotReport some_report() {
  return {.waiting = true,
          .phase = Phase::Compiling,
          .operation = OperationKind::AllToAll,
          .begun = 90,
          .group = 7,
          .ordinal = 12,
          .group_name = "expert",
          .event = "call 6 of train_step",
          .since_progress = std::chrono::milliseconds(1500),
          .lease_left = std::chrono::seconds(9),
          .looks = 100,
          .looks_waiting = 40,
          .groups = {{0, 78}, {7, 12}},
          .counters = {.reused = 70,
                       .compiled = 3,
                       .votes = 75,
                       .waited = std::chrono::milliseconds(12),
                       .compile = std::chrono::seconds(2),
                       .rounds = some_rounds()}};
}
Join some_join() {
  return {{.job = "train",
           .rank = {3},
           .size = 8,
           .incarnation = Incarnation(99),
           .host = "n1",
           .host_id = 5,
           .pid = 4711,
           .build = "b1"}};
}
CallEvent some_event() {
  CallEvent event;
  event.frame = "train_step";
  event.group = "expert";
  event.epoch = 1, event.call = 5;
  event.outcome = CallEvent::Outcome::Error;
  event.code = Code::BranchDivergence;
  event.entry = -1;
  event.attempts = 2;
  event.graph = {3, 4};
  event.nodes = 77;
  event.reason = "two\nlines";
  event.decisions = "x [s0]";
  event.compile = std::chrono::seconds(3);
  return event;
}
std::vector<Message> one_of_each() {
  return {some_join(),
          some_report(),
          some_event(),
          GraphText{{3, 4}, "n0\nn1\n"},
          Configuration{"build=1\n"},
          GraphWanted{{3, 4}},
          JobVerdict{Code::Stuck, "Rank 3 has not come."},
          StatusRequest{},
          StatusRequest{true},
          Ending{Code::Stuck, "Rank 3 has not come to the vote."},
          Noted{},
          Joined{},
          Refused{Code::Version, "Another build."},
          StatusPart{true, "{\n}"}};
}

constexpr auto kSlot = static_cast<std::uint8_t>(MessageType::Slot);
std::uint8_t type(const Message& message) { return static_cast<std::uint8_t>(type_of(message)); }

struct Pair {
  Session coordinator{Session::Side::Coordinator, kSecret, nonce(1)};
  Session client{Session::Side::Client, kSecret, nonce(2)};
  /// Returns what the client's frames come to, the handshake done.
  void establish() {
    const auto challenge = coordinator.take(client.open());
    const auto proof = client.take(challenge.reply);
    const auto welcome = coordinator.take(proof.reply);
    const auto end = client.take(welcome.reply);
    ASSERT_FALSE(challenge.refusal || proof.refusal || welcome.refusal || end.refusal);
    ASSERT_TRUE(client.established() && coordinator.established());
  }
};

TEST(Message, Bytes_AreThoseOfThisVersion) {
  std::vector<std::pair<std::string, Bytes>> written;
  for (const Message& message : one_of_each()) {
    Bytes bytes{static_cast<std::byte>(type(message))};
    const Bytes payload = encode(message);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    written.emplace_back(std::to_string(written.size()), std::move(bytes));
  }
  test::expect_golden_bytes(LOCKSTEP_COORDINATOR_MESSAGES, written);
}

TEST(Message, EachOne_ComesBackAsItWas) {
  for (const Message& message : one_of_each()) {
    const auto back = decode({type(message), encode(message)});
    ASSERT_TRUE(back) << message.index();
    EXPECT_EQ(*back, message) << message.index();
  }
}

TEST(Message, CutOffOrWithABytesMore_IsNone) {
  for (const Message& message : one_of_each()) {
    Bytes payload = encode(message);
    for (std::size_t length = 0; length < payload.size(); ++length)
      EXPECT_FALSE(
          decode({type(message),
                  Bytes(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length))}))
          << message.index() << " cut at " << length;
    payload.push_back(std::byte{0});
    EXPECT_FALSE(decode({type(message), payload})) << message.index();
  }
  EXPECT_FALSE(decode({static_cast<std::uint8_t>(HandshakeType::Hello), {}}));
  EXPECT_FALSE(decode({200, {}}));
}

TEST(Message, ValuesOutOfRange_AreNone) {
  const Bytes sound = encode(some_report());
  const auto altered = [&](std::size_t at, std::uint8_t value) {
    Bytes payload = sound;
    payload[at] = std::byte{value};
    return decode({kSlot, payload});
  };
  EXPECT_TRUE(altered(2, 5));
  EXPECT_FALSE(altered(0, 2)) << "a flag";
  EXPECT_FALSE(altered(2, 6)) << "a phase";
  EXPECT_FALSE(altered(3, 9)) << "an operation";
  const std::size_t progress = 4 + 24 + 4 + 6 + 4 + 20;
  EXPECT_FALSE(altered(progress + 7, 0x80)) << "a negative span";
  EXPECT_FALSE(altered(progress + 7, 0x7F)) << "three hundred years";
  const std::size_t groups = progress + 32;
  EXPECT_FALSE(altered(groups, 3)) << "more groups than bytes";
  EXPECT_FALSE(altered(groups + 3, 0xFF));
}

TEST(Message, TooManyGroups_AreNotTaken) {
  SlotReport report = some_report();
  report.groups.resize(kMostGroups + 1);
  Bytes payload = encode(report);  // the writer cuts
  ASSERT_TRUE(decode({kSlot, payload}));
  payload.insert(payload.end(), 16, std::byte{0});
  payload[4 + 24 + 4 + 6 + 4 + 20 + 32] = std::byte{kMostGroups + 1};
  EXPECT_FALSE(decode({kSlot, payload}));
}

TEST(Message, TextsThatSteerTerminals_AreMadeHarmless) {
  Join join = some_join();
  join.identity.host = "n1\033[2J\n\x7F";
  const auto back = decode({static_cast<std::uint8_t>(MessageType::Join), encode(join)});
  EXPECT_EQ(std::get<Join>(*back).identity.host, "n1 [2J  ");
}

TEST(Session, Handshake_ByteByByte_ThenEachMessageComesThrough) {
  Pair pair;
  Bytes to_coordinator = pair.client.open(), to_client;
  while (!to_coordinator.empty() || !to_client.empty()) {
    Bytes replies;
    for (const std::byte b : to_coordinator) {
      const auto taken = pair.coordinator.take({&b, 1});
      ASSERT_FALSE(taken.refusal);
      to_client.insert(to_client.end(), taken.reply.begin(), taken.reply.end());
    }
    for (const std::byte b : to_client) {
      const auto taken = pair.client.take({&b, 1});
      ASSERT_FALSE(taken.refusal);
      replies.insert(replies.end(), taken.reply.begin(), taken.reply.end());
    }
    to_coordinator = replies;
    to_client.clear();
  }
  ASSERT_TRUE(pair.client.established() && pair.coordinator.established());
  for (const Message& message : one_of_each()) {
    const bool up = type_of(message) < MessageType::Joined;
    Session& from = up ? pair.client : pair.coordinator;
    Session& to = up ? pair.coordinator : pair.client;
    const auto taken = to.take(from.seal(message));
    ASSERT_FALSE(taken.refusal) << message.index();
    EXPECT_EQ(taken.messages, std::vector<Message>{message});
  }
}

TEST(Session, ClientWithAnotherSecret_IsRejectedAndToldSo) {
  Session coordinator(Session::Side::Coordinator, kSecret, nonce(1));
  Session client(Session::Side::Client, bytes_of("another secret, long enough"), nonce(2));
  const auto challenge = coordinator.take(client.open());
  const auto verdict = coordinator.take(client.take(challenge.reply).reply);
  EXPECT_EQ(verdict.refusal, Refusal::Token);
  EXPECT_FALSE(coordinator.established());
  const auto told = client.take(verdict.reply);
  EXPECT_EQ(told.refusal, Refusal::Token);
  EXPECT_FALSE(client.established());
}

TEST(Session, CoordinatorThatDoesNotKnowTheSecret_IsNotBelieved) {
  Session impostor(Session::Side::Coordinator, bytes_of("another secret, long enough"), nonce(1));
  Session client(Session::Side::Client, kSecret, nonce(2));
  (void)client.take(impostor.take(client.open()).reply);
  const auto end = client.take(SealedMessageWriter::plain(HandshakeType::Welcome, Mac{}));
  EXPECT_EQ(end.refusal, Refusal::Token);
  EXPECT_FALSE(client.established());
}

/// Until neither has anything to say; what each was refused for.
std::pair<std::optional<Refusal>, std::optional<Refusal>> talk(Session& client,
                                                               Session& coordinator) {
  std::optional<Refusal> at_client, at_coordinator;
  for (Bytes said = client.open(); !said.empty();) {
    auto heard = coordinator.take(said);
    if (heard.refusal) at_coordinator = heard.refusal;
    auto back = client.take(heard.reply);
    if (back.refusal) at_client = back.refusal;
    said = heard.refusal || back.refusal ? Bytes{} : back.reply;
  }
  return {at_client, at_coordinator};
}

TEST(Session, Encrypted_SaysTheSame_AndNobodyElseReadsIt) {
  for (const auto door : {Encryption::On, Encryption::AsTheClient}) {
    Session coordinator(Session::Side::Coordinator, kSecret, nonce(1), door);
    Session client(Session::Side::Client, kSecret, nonce(2), Encryption::On);
    EXPECT_EQ(talk(client, coordinator),
              std::pair(std::optional<Refusal>{}, std::optional<Refusal>{}));
    ASSERT_TRUE(client.established() && coordinator.established());
    const Message message = StatusPart{true, "x.size(0) is 4711 on rank 3"};
    const Bytes said = coordinator.seal(message);
    const auto words = bytes_of("4711 on rank 3");
    EXPECT_EQ(std::search(said.begin(), said.end(), words.begin(), words.end()), said.end());
    const auto heard = client.take(said);
    ASSERT_FALSE(heard.refusal);
    EXPECT_EQ(heard.messages, std::vector<Message>{message});
  }
}

TEST(Session, EncryptedWithAnotherSecret_IsRefusedByBoth) {
  Session coordinator(Session::Side::Coordinator, kSecret, nonce(1), Encryption::On);
  Session client(Session::Side::Client, bytes_of("another secret, long enough"), nonce(2),
                 Encryption::On);
  EXPECT_EQ(talk(client, coordinator),
            std::pair(std::optional(Refusal::Token), std::optional(Refusal::Token)));
  EXPECT_FALSE(client.established() || coordinator.established());
}

TEST(Session, OneEncryptsAndTheOtherDoesNot_BothSaySo) {
  for (const bool by_client : {true, false}) {
    Session coordinator(Session::Side::Coordinator, kSecret, nonce(1),
                        by_client ? Encryption::Off : Encryption::On);
    Session client(Session::Side::Client, kSecret, nonce(2),
                   by_client ? Encryption::On : Encryption::Off);
    EXPECT_EQ(talk(client, coordinator),
              std::pair(std::optional(Refusal::Encryption), std::optional(Refusal::Encryption)));
    EXPECT_FALSE(client.established() || coordinator.established());
  }
}

TEST(Session, CoordinatorThatLetsTheClientChoose_TakesPlainOnesToo) {
  Session coordinator(Session::Side::Coordinator, kSecret, nonce(1), Encryption::AsTheClient);
  Session client(Session::Side::Client, kSecret, nonce(2));
  (void)talk(client, coordinator);
  EXPECT_TRUE(client.established() && coordinator.established());
}

TEST(Encryption, IsOnWhereAnotherMachineCanListen_UnlessTheUserSaysOtherwise) {
  ::unsetenv("LOCKSTEP_ENCRYPTION");
  EXPECT_EQ(encryption_to({"127.0.0.1", 1}), Encryption::Off);
  EXPECT_EQ(encryption_to({"::1", 1}), Encryption::Off);
  EXPECT_EQ(encryption_to({"10.0.0.1", 1}), Encryption::On);
  EXPECT_EQ(encryption_to({"0.0.0.0", 1}), Encryption::On);
  EXPECT_EQ(encryption_from("::ffff:127.0.0.1"), Encryption::AsTheClient);
  EXPECT_EQ(encryption_from("::ffff:10.0.0.1"), Encryption::On);
  EXPECT_EQ(encryption_warning({"10.0.0.1", 1}, "it"), "");
  ::setenv("LOCKSTEP_ENCRYPTION", "off", 1);
  EXPECT_EQ(encryption_to({"10.0.0.1", 1}), Encryption::Off);
  EXPECT_EQ(encryption_from("10.0.0.1"), Encryption::AsTheClient);
  EXPECT_EQ(encryption_warning({"127.0.0.1", 1}, "it"), "");
  EXPECT_NE(encryption_warning({"10.0.0.1", 1}, "it").find("it at 10.0.0.1:1 is not encrypted"),
            std::string::npos);
  ::setenv("LOCKSTEP_ENCRYPTION", "of", 1);
  EXPECT_EQ(encryption_to({"10.0.0.1", 1}), Encryption::On) << "a slip switches nothing off";
  EXPECT_EQ(encryption_wanted().error().code, Code::BadInput);
  ::unsetenv("LOCKSTEP_ENCRYPTION");
}

TEST(Session, ProofSentBack_IsNoProof) {
  Session client(Session::Side::Client, kSecret, nonce(2));
  const auto challenge =
      SealedMessageWriter::plain(HandshakeType::Challenge, nonce(2));  // its own nonce
  const auto proof = client.take(challenge);
  ASSERT_FALSE(proof.refusal);
  Bytes mirrored = proof.reply;
  mirrored[5] = std::byte{static_cast<std::uint8_t>(HandshakeType::Welcome)};
  EXPECT_EQ(client.take(mirrored).refusal, Refusal::Token);
}

TEST(Session, RecordedHandshake_IsWorthNothingAgainstAnotherNonce) {
  Session first(Session::Side::Coordinator, kSecret, nonce(1));
  Session client(Session::Side::Client, kSecret, nonce(2));
  const Bytes hello = client.open();
  const Bytes proof = client.take(first.take(hello).reply).reply;
  ASSERT_FALSE(first.take(proof).refusal);
  Session second(Session::Side::Coordinator, kSecret, nonce(3));
  (void)second.take(hello);
  EXPECT_EQ(second.take(proof).refusal, Refusal::Token);
}

TEST(Session, FrameSentBackToWhoWroteIt_IsRefused) {
  Pair pair;
  pair.establish();
  EXPECT_EQ(pair.client.take(pair.client.seal(StatusRequest{})).refusal, Refusal::Altered);
}

TEST(Session, FrameOfAnotherConnection_IsRefused) {
  Pair pair;
  pair.establish();
  Pair other;
  other.client = Session(Session::Side::Client, kSecret, nonce(4));
  other.establish();
  EXPECT_EQ(pair.coordinator.take(other.client.seal(StatusRequest{})).refusal, Refusal::Altered);
}

TEST(Session, MessagesBeforeTheHandshakeOrFromTheWrongSide_AreRefused) {
  Session early(Session::Side::Coordinator, kSecret, nonce(1));
  const auto taken = early.take(SealedMessageWriter::plain(
      HandshakeType{static_cast<std::uint8_t>(MessageType::Join)}, bytes_of("x")));
  EXPECT_EQ(taken.refusal, Refusal::Order);
  EXPECT_TRUE(taken.messages.empty());
  EXPECT_EQ(early.take({}).refusal, Refusal::Order) << "it is over";
  Pair pair;
  pair.establish();
  EXPECT_EQ(pair.coordinator.take(pair.client.seal(Joined{})).refusal, Refusal::Order);
}

TEST(Session, OtherVersion_IsSaidToTheOtherSide) {
  Session coordinator(Session::Side::Coordinator, kSecret, nonce(1));
  Session client(Session::Side::Client, kSecret, nonce(2));
  Bytes hello = client.open();
  hello[4] = std::byte{collectives::kProtocolVersion + 1};
  const auto taken = coordinator.take(hello);
  EXPECT_EQ(taken.refusal, Refusal::Version);
  EXPECT_EQ(client.take(taken.reply).refusal, Refusal::Version);
}

}  // namespace
}  // namespace lockstep::coordinator::wire_test
