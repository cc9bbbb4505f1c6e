// Messages between processes over TCP: their bytes, there and back, and what no process writes.
#include <algorithm>
#include <utility>

#include "../golden_bytes.h"

#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives::tcp_message_test {
namespace {

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

RendezvousId some_id() {
  RendezvousId id{};
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(0xA0 + i);
  return id;
}

RankProgress some_progress() {
  RankProgress progress{.rank = {3}, .state = {}, .begun = {{kWorldGroup, 78}, {7, 12}}};
  RankState& s = progress.state;
  s.known = s.carried = s.waiting = true;
  s.phase = Phase::Compiling;
  s.operation = OperationKind::AllToAll;
  s.pid = 4711;
  s.begun = 90, s.group = 7, s.ordinal = 12;
  s.event = "call 6 of train_step";
  s.progress = std::chrono::milliseconds(1500);
  s.beat = std::chrono::milliseconds(20);
  s.lease = std::chrono::seconds(9);
  return progress;
}

/// One of each type at least, in the order of types.
std::vector<std::pair<std::string, TcpMessage>> messages() {
  JoinRequest request;
  request.job = "train", request.rank = {3}, request.size = 8, request.build = "b1",
  request.host = "n1";
  request.host_id = 5, request.pid = 4711, request.port = 29500;
  JoinRequest wrong = request;
  wrong.rank = {-1}, wrong.size = -2, wrong.pid = -3;
  RankSet missing = RankSet::range({1}, {4});
  missing.insert(RankSet::of({65'535}));
  const Status why{Code::RankLost,
                   "rank 2 is lost",
                   "x.size(0)",
                   {{RankSet::range({0}, {1}), "waits"}, {RankSet::of({2}), "is gone"}}};
  return {
      {"JoinRequest", request},
      {"JoinRequest.wrong", wrong},
      {"Waiting", Waiting{missing}},
      {"JoinRefused", JoinRefused{Code::Version, "another build"}},
      {"RosterPart",
       RosterPart{
           some_id(), 256, {{{"10.0.0.1", 4000}, "n1", 5, 4711}, {{"::1", 65'535}, "", 0, 1}}}},
      {"Introduction", Introduction{some_id(), {3}, 2, 1U << 31}},
      {"Part", Part{7, Part::Kind::Data, 100, 5, 6, bytes_of(std::string_view("a\0\x7F\xFF", 4))}},
      {"Acknowledgement", Acknowledgement{~std::uint64_t{0}}},
      {"Verdict", Verdict{why}},
      {"RankProgress", some_progress()},
      {"WaitAt", WaitAt{{"10.0.0.2", 4001}}},
      {"Presence", Presence{{4}, false}}};
}

std::optional<TcpMessage> there_and_back(const TcpMessage& message) {
  return decode_tcp({type_of(message), encode(message)});
}

TEST(TcpMessages, Bytes_AreThoseOfThisVersion) {
  std::vector<std::pair<std::string, Bytes>> written;
  for (const auto& [name, message] : messages()) {
    Bytes& bytes =
        written.emplace_back(name, Bytes{static_cast<std::byte>(type_of(message))}).second;
    const Bytes payload = encode(message);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
  }
  test::expect_golden_bytes(LOCKSTEP_TCP_MESSAGES, written);
}

TEST(TcpMessages, EachOne_ComesBackAsItWas_AndNotCutOrLonger) {
  std::size_t types = 0;
  for (const auto& [name, message] : messages()) {
    types = std::max(types, message.index() + 1);
    EXPECT_TRUE(there_and_back(message) == message) << name;
    Bytes payload = encode(message);
    for (std::size_t length = 0; length < payload.size(); ++length)
      EXPECT_FALSE(decode_tcp(
          {type_of(message),
           Bytes(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length))}))
          << name << " cut at " << length;
    payload.push_back(std::byte{0});
    EXPECT_FALSE(decode_tcp({type_of(message), payload})) << name;
  }
  EXPECT_EQ(types, std::variant_size_v<TcpMessage>);
  EXPECT_FALSE(decode_tcp({static_cast<std::uint8_t>(kFirstSealedType + types), {}}));
  EXPECT_FALSE(decode_tcp({kFirstSealedType - 1, {}}));
}

TEST(TcpMessages, ValuesOutOfRange_AreNone) {
  const auto altered = [](const TcpMessage& message, std::size_t at, std::uint8_t value) {
    Bytes payload = encode(message);
    payload.at(at) = std::byte{value};
    return decode_tcp({type_of(message), payload});
  };
  EXPECT_TRUE(altered(some_progress(), 6, 5));
  EXPECT_FALSE(altered(some_progress(), 2, 1)) << "rank 65,539";
  EXPECT_FALSE(altered(some_progress(), 4, 2)) << "a flag";
  EXPECT_FALSE(altered(some_progress(), 6, 6)) << "a phase";
  EXPECT_FALSE(altered(some_progress(), 7, 9)) << "an operation";
  const std::size_t event = 12 + 24, times = event + 4 + some_progress().state.event.size();
  EXPECT_FALSE(altered(some_progress(), event, kEventBytes + 1)) << "a text that is too long";
  EXPECT_FALSE(altered(some_progress(), times + 7, 0x80)) << "a negative span";
  EXPECT_FALSE(altered(some_progress(), times + 7, 0x7F)) << "three hundred years";
  EXPECT_FALSE(altered(some_progress(), times + 24 + 2, 1)) << "more groups than bytes";
  EXPECT_FALSE(altered(WaitAt{{"n", 1}}, 7, 1)) << "port 65,537";
  EXPECT_FALSE(altered(JoinRefused{}, 0, static_cast<std::uint8_t>(Code::Internal) + 1))
      << "a code";
  EXPECT_FALSE(altered(Part{7, Part::Kind::Data, 4, 5, 6, bytes_of("abcd")}, 9, 3))
      << "more bytes than the whole";
  EXPECT_FALSE(altered(Part{}, 8, static_cast<std::uint8_t>(Part::Kind::Farewell) + 1)) << "a kind";
  const Waiting apart{[] {
    RankSet ranks = RankSet::range({1}, {2});
    ranks.insert(RankSet::range({5}, {6}));
    return ranks;
  }()};
  EXPECT_TRUE(altered(apart, 4 + 8, 4));
  EXPECT_FALSE(altered(apart, 4 + 8, 3)) << "runs that touch";
  EXPECT_FALSE(altered(apart, 4 + 8, 1)) << "runs out of order";
  EXPECT_FALSE(altered(apart, 4 + 8, 7)) << "a run that ends before it begins";
}

TEST(TcpMessages, TextsThatAreTooLong_AreCut_AndTheTableOfAVerdictToo) {
  JoinRequest request;
  request.host = std::string(200, 'h');
  EXPECT_EQ(std::get<JoinRequest>(*there_and_back(request)).host, std::string(128, 'h'));
  Verdict verdict{{Code::Stuck, std::string(5000, 'm'), {}, {}}};
  for (std::int32_t rank = 0; rank < 100; ++rank)
    verdict.status.groups.push_back({RankSet::of({2 * rank}), std::string(1000, 'v')});
  const auto back = std::get<Verdict>(*there_and_back(verdict)).status;
  EXPECT_EQ(back.message.size(), 4096U);
  ASSERT_EQ(back.groups.size(), 31U) << "rows of 1,016 bytes while they take at most 30 KiB";
  EXPECT_EQ(back.groups.back(), verdict.status.groups[30]);
  for (RankValue& row : verdict.status.groups) row.value = "v";
  EXPECT_EQ(std::get<Verdict>(*there_and_back(verdict)).status.groups.size(), 64U);
}

TEST(TcpMessages, TextsThatSteerTerminals_AreMadeHarmless) {
  const auto back = there_and_back(JoinRefused{Code::BadInput, "a\033[2J\n\x7F"});
  EXPECT_EQ(std::get<JoinRefused>(*back).message, "a [2J  ");
}

TEST(TcpMessages, SpansOfMoreThanTenYears_AreWrittenAsTen) {
  RankProgress progress = some_progress();
  progress.state.lease = std::chrono::hours(24 * 365 * 100);
  progress.state.beat = std::chrono::seconds(-1);
  const auto back = std::get<RankProgress>(*there_and_back(progress)).state;
  EXPECT_EQ(back.lease, Instant(std::chrono::hours(24 * 365 * 10)));
  EXPECT_EQ(back.beat, Instant{0});
}

}  // namespace
}  // namespace lockstep::collectives::tcp_message_test
