// Commands and replies as bytes: there and back, and what no peer of this version writes.
#include <random>
#include <utility>

#include "../../collectives/golden_bytes.h"
#include "tracing.h"

#include <lockstep/worker/controller/messages/group_question.h>
#include <lockstep/worker/controller/messages/message_pieces.h>
#include <lockstep/worker/controller/messages/reply.h>

namespace lockstep::worker::command_test {
namespace {

using collectives::SealedSession;
using test::DecisionBuilder;
using test::dynamic;

const Status kWhy{Code::GraphDivergence,
                  "graphs differ",
                  "x.size(0)",
                  {{RankSet::range(Rank{0}, Rank{2}), "a"}, {RankSet::of(Rank{5}), "b"}}};

/// One of each type, in the order of types.
std::vector<Command> commands() {
  const TensorBytes tensor{DType::I16, {2, 3}, "abcdefghijkl"};
  return {Hello{},
          PutTensor{Handle{7}, "x", Rank{3}, tensor},
          ReadTensors{"/x.{rank}.safetensors", {{"a", Handle{8}}, {"b", Handle{9}}}},
          ShipProgram{"digest", std::string("\0bytes", 6)},
          LoadFrame{FrameNumber{2}, "digest", "step.lsp"},
          MakeFrame{FrameNumber{3}, "step"},
          CallFrame{FrameNumber{3},
                    11,
                    Handle{12},
                    4,
                    13,
                    true,
                    {{"x", Kind::Tensor, Handle{7}, true, 0, {Mark::None, Mark::Dynamic}},
                     {"n", Kind::Int, {}, false, -5, {}},
                     {"rate", Kind::Float, {}, false, 77, {}},
                     {"on", Kind::Bool, {}, false, 1, {}}}},
          DropHandles{{Handle{1}, Handle{2}}},
          FetchTensor{21, Handle{7}, Rank{1}},
          AskSizes{22, Handle{7}},
          Settle{23},
          Finish{24},
          EndJob{kWhy},
          TraceAnswer{25, kWhy, "program", "question"}};
}

TraceRequest asked() {
  TraceRequest out{.number = 4, .frame = FrameNumber{1}, .decision = "bytes", .workers = 4};
  ObservationBuilder seen;
  seen.tensor("x", {3, 2}, DType::F64).integer("n", 5).real("rate").boolean("on", true);
  out.seen = seen.build();
  out.answers = {true, false};
  return out;
}
std::vector<Reply> replies() {
  return {
      Held{4, 17, Handle{99}, {{"step", ""}, {"loaded", "digest"}}, {{Handle{3}, "x", DType::F64}}},
      Refused{kWhy},
      Alive{},
      CommandsDone{12},
      Failed{kWhy},
      asked(),
      Called{3, 1, {"loss", "y"}, asked(), {5, 6}},
      TensorAnswer{9, kWhy, {}},
      SizesAnswer{10, {}, DType::F32, {{1, 2}, {}, {3}}},
      Done{11},
      Verdict{kWhy}};
}

TEST(ControllerMessages, Commands_OfEachTypeGoThereAndBack) {
  const auto all = commands();
  ASSERT_EQ(all.size(), std::variant_size_v<Command>);
  for (std::size_t type = 0; type < all.size(); ++type) {
    ASSERT_EQ(all[type].index(), type);
    const auto back = decode_command(encode(all[type]));
    ASSERT_TRUE(back) << command_name(all[type]);
    EXPECT_EQ(*back, all[type]) << command_name(all[type]);
  }
}

TEST(ControllerMessages, Replies_OfEachTypeGoThereAndBack) {
  const auto all = replies();
  ASSERT_EQ(all.size(), std::variant_size_v<Reply>);
  for (const Reply& reply : all) {
    const Bytes bytes = encode(reply);
    const auto back = decode_reply(bytes);
    ASSERT_TRUE(back) << reply.index();
    EXPECT_EQ(back->index(), reply.index());
    EXPECT_EQ(encode(*back), bytes) << reply.index();
  }
  const auto back = std::get<TraceRequest>(*decode_reply(encode(Reply(asked()))));
  EXPECT_EQ(back.seen.list->sources(), asked().seen.list->sources());
  EXPECT_EQ(back.seen.values, asked().seen.values);
}

TEST(ControllerMessages, Bytes_AreThoseOfThisVersion) {
  std::vector<std::pair<std::string, Bytes>> written;
  for (const Command& command : commands())
    written.emplace_back("command" + std::to_string(written.size()), encode(command));
  written.emplace_back("tensor_for_all",
                       encode(Command(PutTensor{Handle{7}, "x", {}, {DType::F32, {0, 2}, ""}})));
  for (const Reply& reply : replies())
    written.emplace_back("reply" + std::to_string(reply.index()), encode(reply));
  written.emplace_back("tensor", encode(Reply(TensorAnswer{9, {}, {DType::U8, {2}, "ab"}})));
  written.emplace_back("not_called", encode(Reply(Called{3, {}, {}, {}, {}})));
  lockstep::test::expect_golden_bytes(LOCKSTEP_CONTROLLER_MESSAGES, written);
}

TEST(ControllerMessages, CutOrLonger_IsRefused) {
  std::vector<Bytes> all;
  for (const Command& command : commands()) all.push_back(encode(command));
  for (const Bytes& bytes : all) {
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode_command(std::span(bytes).first(length))) << length;
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_command(longer));
  }
  for (const Reply& reply : replies()) {
    const Bytes bytes = encode(reply);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode_reply(std::span(bytes).first(length))) << length;
  }
}

/// Whatever is read from damaged bytes is written as a message again.
TEST(ControllerMessages, DamagedBytes_AreRefusedOrAreAnotherMessage) {
  std::mt19937_64 draw(20251125);
  for (int round = 0; round < 20'000; ++round) {
    const auto all = commands();
    Bytes bytes = encode(all[draw() % all.size()]);
    for (std::uint64_t hits = 1 + draw() % 3; hits > 0; --hits)
      bytes[draw() % bytes.size()] = static_cast<std::byte>(draw());
    if (const auto read = decode_command(bytes)) {
      EXPECT_TRUE(decode_command(encode(*read)) == read) << "round " << round;
    }
    if (const auto read = decode_reply(bytes)) (void)encode(*read);
  }
}

TEST(ControllerMessages, RankThatNoJobHas_IsRefused) {
  const auto about = [](std::int32_t rank) {
    const Status why{Code::RankLost, "lost", "", {{RankSet::of(Rank{rank}), "here"}}};
    return decode_command(encode(Command(EndJob{why})));
  };
  EXPECT_TRUE(about(std::numeric_limits<std::int32_t>::max() - 1));
  EXPECT_FALSE(about(std::numeric_limits<std::int32_t>::max()));
}

TEST(ControllerMessages, TensorWithOtherSizesThanElements_IsRefused) {
  const auto with = [](std::vector<std::int64_t> sizes, std::string elements) {
    return decode_command(encode(Command(
        PutTensor{Handle{1}, "x", {}, {DType::I32, std::move(sizes), std::move(elements)}})));
  };
  EXPECT_TRUE(with({2}, "12345678"));
  EXPECT_TRUE(with({0, 5}, ""));
  EXPECT_FALSE(with({3}, "12345678"));
  EXPECT_FALSE(with({-2}, "12345678"));
  EXPECT_FALSE(with({std::int64_t{1} << 62, 4}, ""));
}

TEST(ControllerMessages, GreetingOfAnotherVersion_TellsItsVersion) {
  EXPECT_EQ(greeted_version(encode(Command(Hello{9}))), 9U);
  EXPECT_EQ(greeted_version(encode(Command(Settle{9}))), std::nullopt);
}

TEST(ControllerMessages, NamesDigest_TellsListsOfNamesApart) {
  const std::vector<std::string> a{"x", "y"}, b{"xy"}, none;
  EXPECT_NE(names_digest(a), names_digest(b));
  EXPECT_NE(names_digest(none), 0U);
}

/// Two sides that know one secret.
struct Pair {
  Pair() {
    Bytes to_server = client.open();
    for (int i = 0; i < 3; ++i) {
      const auto at_server = server.take(to_server);
      to_server = client.take(at_server.reply).reply;
    }
  }
  collectives::Secret secret = collectives::random_secret();
  SealedSession client{SealedSession::Side::Client, secret, collectives::random_nonce()};
  SealedSession server{SealedSession::Side::Server, secret, collectives::random_nonce()};
};

TEST(MessagePieces, LongMessages_ComeWholeAndBeyondTheLimitAreRefused) {
  Pair pair;
  ASSERT_TRUE(pair.client.established() && pair.server.established());
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{64 * 1024},
                                   std::size_t{64 * 1024 + 1}, std::size_t{300'000}}) {
    Bytes message(length);
    for (std::size_t i = 0; i < length; ++i) message[i] = static_cast<std::byte>(i * 7);
    const auto taken = pair.server.take(seal_message(pair.client, message));
    PieceJoiner whole(300'000), less(299'999);
    std::optional<Bytes> got;
    bool refused = false;
    for (const auto& piece : taken.messages) {
      if (auto part = whole.take(piece); part.message) got = std::move(part.message);
      refused = refused || less.take(piece).refusal.has_value();
    }
    EXPECT_EQ(got, message) << length;
    EXPECT_EQ(refused, length > 299'999) << length;
  }
}

TEST(GroupQuestion, IsAnsweredByWhatAWorkerHasSeen) {
  const Decision decision =
      DecisionBuilder().tensor("x", DType::F32, {dynamic(6), dynamic(3)}).get();
  const std::vector<shapes::Symbol> symbols = decision.trace_symbols();
  const shapes::Expr rows = shapes::Expr::symbol(symbols.at(0)),
                     columns = shapes::Expr::symbol(symbols.at(1));
  const auto seen = [](std::int64_t one, std::int64_t two) {
    return ObservationBuilder().tensor("x", {one, two}).build();
  };
  const auto asked = encode_question(decision, shapes::less(columns * 2, rows));
  ASSERT_TRUE(asked);
  EXPECT_EQ(answer_question(*asked, decision, seen(7, 3)).value(), true);
  EXPECT_EQ(answer_question(*asked, decision, seen(6, 3)).value(), false);
  const auto product = encode_question(decision, shapes::less(rows, columns * columns * rows));
  ASSERT_TRUE(product);
  EXPECT_EQ(answer_question(*product, decision, seen(7, std::int64_t{1} << 62)).value(), true);
  const auto large = answer_question(*product, decision, seen(9, std::int64_t{1} << 62));
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("has no value here"), std::string::npos);
  // Bytes that are none, and the question of another call.
  const Decision other = DecisionBuilder().tensor("x", DType::F32, {dynamic(6)}).get();
  EXPECT_EQ(answer_question("none", decision, seen(7, 3)).error().code, Code::TraceError);
  EXPECT_EQ(answer_question(*asked, other, seen(7, 3)).error().code, Code::TraceError);
  // A value that no input has.
  EXPECT_FALSE(encode_question(
      decision, shapes::less(shapes::Expr::symbol(decision.host_symbols(1)[0]), rows)));
}

}  // namespace
}  // namespace lockstep::worker::command_test
