// What an exchange costs within a call: rounds, names, bytes per rank and per message.
#include <algorithm>

#include "naive_exchange.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::worker::exchange_call_test {
namespace {

const std::string kLong(300, 'n');

/// The lengths of a rank's own payloads in the last call, in order.
std::vector<std::size_t> payloads(const VirtualRanks& ranks, std::size_t rank) {
  std::vector<std::size_t> out;
  const std::string& log = ranks.log[rank];
  for (std::size_t at = log.find("exchange "); at != std::string::npos;
       at = log.find("exchange ", at + 1))
    out.push_back(std::stoul(log.substr(at + 9)));
  return out;
}

/// Two exchanges before the rank table of the error: the roster and the vector.
std::size_t roster_bytes(const VirtualRanks& ranks, std::size_t rank) {
  const auto all = payloads(ranks, rank);
  EXPECT_EQ(all.size(), 3U) << ranks.log[rank];
  return all.empty() ? 0 : all[0];
}

TEST(ExchangeInCall, OneListAndState_TakesOneExchange_AndSendsNoNames) {
  VirtualRanks ranks(3);
  const auto in = [](std::int64_t n) { return Inputs().tensor(kLong, {n, 4}); };
  EXPECT_EQ(outcome_text(ranks.joint({in(5), in(6), in(7)})), "compiled 0");
  EXPECT_EQ(payloads(ranks, 0), (std::vector<std::size_t>{32 + 2 * 8}));
  EXPECT_EQ(outcome_text(ranks.joint({in(5), in(0), in(7)})), "compiled 1");
  EXPECT_EQ(payloads(ranks, 1), (std::vector<std::size_t>{32 + 2 * 8}));
}

TEST(ExchangeInCall, NamesOfAList_TravelOnce_WhateverListsComeBetween) {
  VirtualRanks ranks(2);
  const Inputs both = Inputs().tensor("x", {5}).tensor(kLong + "a", {5}).tensor(kLong + "b", {5});
  const Inputs one = Inputs().tensor("x", {5}).tensor(kLong + "b", {5});
  const Inputs more = Inputs().tensor("x", {5}).tensor(kLong + "c", {5});
  const std::size_t bare = encode(Roster{}).size();
  const auto mismatch = [&](const Inputs& a, const Inputs& b) {
    const CallOutcome outcome = ranks.joint({a, b});
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code, Code::SourceMismatch);
  };
  mismatch(both, one);
  EXPECT_GT(roster_bytes(ranks, 0), bare + 600);
  EXPECT_GT(roster_bytes(ranks, 1), bare + 300);
  for (const auto& [a, b] : {std::pair(both, one), std::pair(one, both), std::pair(both, one)}) {
    mismatch(a, b);
    EXPECT_EQ(roster_bytes(ranks, 0), bare);
    EXPECT_EQ(roster_bytes(ranks, 1), bare);
  }
  mismatch(more, both);
  EXPECT_GT(roster_bytes(ranks, 0), bare + 300) << "a new list sends its one new name";
  EXPECT_LT(roster_bytes(ranks, 0), bare + 400);
  EXPECT_EQ(roster_bytes(ranks, 1), bare);
  mismatch(both, more);
  EXPECT_EQ(roster_bytes(ranks, 0), bare);
  EXPECT_EQ(roster_bytes(ranks, 1), bare);
}

TEST(ExchangeInCall, ATensorThatGainsADim_ExtendsItsName) {
  VirtualRanks ranks(2, {.consistency = Consistency::SharedSizes});
  const Inputs flat = Inputs().tensor("x", {5}).tensor("y", {3});
  const Inputs deep = Inputs().tensor("x", {5, 6, 7}).integer("z", 1);
  EXPECT_EQ(outcome_text(ranks.joint({flat, Inputs().tensor("x", {5})})), "compiled 0");
  EXPECT_EQ(outcome_text(ranks.joint({flat, deep})), "compiled 1");
  EXPECT_EQ(ranks.frame(0).dictionary()->names(), (KnownNames{{"x", 3}, {"y", 1}, {"z", 0}}));
  EXPECT_EQ(ranks.frame(0).dictionary()->digest(), ranks.frame(1).dictionary()->digest());
}

TEST(ExchangeInCall, DictionariesThatDiffer_AreMadeAnew_WithTheSameOutcome) {
  const auto outcome = [](bool apart) {
    VirtualRanks ranks(2);
    if (apart) ranks.frame(0).learn_names({{"other", 2}});
    std::string text =
        outcome_text(ranks.joint({Inputs().tensor("x", {5}), Inputs().tensor("y", {5})}));
    EXPECT_EQ(ranks.exchanges, apart ? 4 : 3);
    EXPECT_EQ(ranks.frame(0).dictionary()->digest(), ranks.frame(1).dictionary()->digest());
    return text;
  };
  EXPECT_EQ(outcome(true), outcome(false));
}

TEST(ExchangeInCall, PayloadsThatCannotBeRead_EndInOneError) {
  VirtualRanks ranks(2);
  CodeCache& frame = ranks.frame(0);
  DecisionConfig config;
  for (const bool roster : {true, false}) {
    CallMachine machine({0}, 2, config, {}, frame, Inputs().tensor("x", {5}).build());
    collectives::Vote result = std::get<action::Vote>(machine.next()).mine;
    if (roster) result.words[3] = result.words[4] = 0;  // lists or states differ
    result.words[0] = 0;
    machine.voted(result);
    ASSERT_TRUE(std::holds_alternative<action::TreeJoin>(machine.next()));
    machine.joined({});
    const auto* finish = std::get_if<action::Finish>(&machine.next());
    ASSERT_NE(finish, nullptr);
    EXPECT_EQ(finish->outcome.error->code, Code::Internal);
    EXPECT_NE(finish->outcome.error->message.find("cannot be read"), std::string::npos);
  }
}

/// What one exchange of 100 sources over a simulated network costs.
struct Cost {
  std::uint64_t received = 0;  // by the rank with most
  std::uint64_t messages = 0;  // to the rank with most
  std::size_t longest = 0;     // message
};

Observation wide(int rank) {
  Inputs in;
  for (int s = 0; s < 100; ++s)
    in.tensor("layer" + std::to_string(s), {5 + rank % 4, 16, 9 - rank % 4, 64});
  return in.build();
}

Cost cost_of(int size, const std::function<Bytes(int)>& payload) {
  collectives::VirtualNetwork network({.size = size});
  Cost cost;
  const auto join = [&cost](std::span<const std::byte> lower, std::span<const std::byte> higher) {
    Bytes out = join_columns(lower, higher);
    cost.longest = std::max({cost.longest, lower.size(), higher.size(), out.size()});
    return out;
  };
  std::vector<std::unique_ptr<collectives::TreeRound>> rounds;
  for (int r = 0; r < size; ++r) {
    rounds.push_back(std::make_unique<collectives::TreeRound>(Rank{r}, size, payload(r), join));
    network.communicator(Rank{r}).start(*rounds.back());
  }
  while (network.step()) {
  }
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(rounds[static_cast<std::size_t>(r)]->result(), rounds[0]->result());
    cost.received = std::max(cost.received, network.traffic(Rank{r}).bytes);
    cost.messages = std::max(cost.messages, network.traffic(Rank{r}).messages);
  }
  EXPECT_FALSE(rounds[0]->result().empty());
  return cost;
}

TEST(ExchangeInCall, AnyNumberOfRanks_NoMessageIsLongerThanOfTwo_NorMoreThanFourTimesTheBytes) {
  const Dictionary dictionary(roster_of(wide(0), {}, true, Dictionary()).names);
  std::vector<Observation> seen;
  for (int r = 0; r < 4; ++r) seen.push_back(wide(r));
  const std::vector<std::function<Bytes(int)>> ways{
      [&](int r) { return list_payload(seen[static_cast<std::size_t>(r % 4)]); },
      [&](int r) {
        return mixed_payload(seen[static_cast<std::size_t>(r % 4)], dictionary, nullptr);
      }};
  for (const auto& payload : ways) {
    const Cost of_two = cost_of(2, payload);
    for (const int size : {3, 4, 8, 16, 1024}) {
      const Cost cost = cost_of(size, payload);
      EXPECT_LE(cost.longest, of_two.longest) << size;
      EXPECT_LE(cost.received, 4 * of_two.received) << size;
      EXPECT_LE(cost.messages, 3U) << size;
    }
  }
}

}  // namespace
}  // namespace lockstep::worker::exchange_call_test
