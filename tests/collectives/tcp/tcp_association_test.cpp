// Associations over a network that a seed decides: connections break at any moment, each side
// notices when it does, both open at once, and what was on its way is lost. Every message arrives
// once and in order. LOCKSTEP_ASSOCIATION_RUNS says how many runs (scripts/test-long: 1,000,000).
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/tcp_association.h>

namespace lockstep::collectives::tcp_association_test {
namespace {

using Link = AssociationPort::Link;

Bytes number(std::uint64_t value) {
  ByteWriter out;
  out.u64(value);
  return std::move(out).take();
}

/// What travels on a connection.
struct Word {
  enum class Kind : std::uint8_t { Introduction, Message, Acknowledgement } kind{};
  std::uint64_t first = 0, second = 0;  // attempt and received; number and received; received
  std::uint64_t value = 0;              // of a message
};

/// One connection: what is on its way to each side, and whether each side knows it as open.
struct Wire {
  std::deque<Word> to[2];
  bool open[2] = {true, false};  // the side that opened it, and then the other
  bool broken = false;
  int opener = 0;
  bool connected = false;

  /// What is said on a connection that has broken goes nowhere.
  void carry(int side, const Word& word) {
    if (!broken) to[side].push_back(word);
  }
};

class Network;

class Side final : public AssociationPort {
 public:
  Side(Network& network, int self)
      : network_(network), self_(self), association(self == 0, *this) {}
  Link open() override;
  void introduce(Link link, std::uint64_t attempt, std::uint64_t received) override;
  void write(Link link, std::span<const std::byte> message) override;
  void acknowledge(Link link, std::uint64_t received) override;
  void close(Link link) override;
  void say();

 private:
  Network& network_;
  int self_;

 public:
  Association association;
  std::map<std::uint64_t, Association::Stamp> stamps;  // of what was said, by value
  std::uint64_t said = 0, heard = 0;
};

class Network {
 public:
  explicit Network(std::uint64_t seed) : random_(seed), sides{{*this, 0}, {*this, 1}} {}

  [[nodiscard]] std::uint64_t below(std::uint64_t end) { return random_() % end; }
  void run(int steps, bool faults);
  [[nodiscard]] std::string failure() const { return failure_; }

  std::map<Link, Wire> wires;
  Link last = 0;

 private:
  void step(bool faults);
  void deliver(Link link, int side);
  void notice(Link link, int side);
  void check(bool holds, const char* what) {
    if (!holds && failure_.empty()) failure_ = what;
  }
  std::mt19937_64 random_;
  std::string failure_;

 public:
  Side sides[2];
};

Link Side::open() {
  const Link link = ++network_.last;
  network_.wires[link].opener = self_;
  network_.wires[link].open[self_] = true;
  network_.wires[link].open[1 - self_] = false;
  return link;
}
void Side::introduce(Link link, std::uint64_t attempt, std::uint64_t received) {
  network_.wires[link].carry(1 - self_, {Word::Kind::Introduction, attempt, received, 0});
}
void Side::write(Link link, std::span<const std::byte> message) {
  const std::uint64_t value = ByteReader(message).u64();
  const Association::Stamp stamp = stamps.at(value);
  network_.wires[link].carry(1 - self_, {Word::Kind::Message, stamp.number, stamp.received, value});
}
void Side::acknowledge(Link link, std::uint64_t received) {
  network_.wires[link].carry(1 - self_, {Word::Kind::Acknowledgement, received, 0, 0});
}
/// The other side notices later; what it has said is lost.
void Side::close(Link link) {
  network_.wires[link].open[self_] = false;
  network_.wires[link].broken = true;
}
void Side::say() {
  stamps[said] = association.next();
  association.send(number(said++));
}

/// The next word on the connection comes to this side, if it still listens to it.
void Network::deliver(Link link, int side) {
  Wire& wire = wires[link];
  Side& to = sides[side];
  const Word word = wire.to[side].front();
  wire.to[side].pop_front();
  if (wire.opener != side && !wire.open[side] && word.kind == Word::Kind::Introduction) {
    wire.open[side] = true;
    return to.association.introduced(link, word.first, word.second);
  }
  if (!wire.open[side]) return;
  switch (word.kind) {
    case Word::Kind::Introduction:
      to.association.answered(link, word.second);
      return;
    case Word::Kind::Acknowledgement:
      check(to.association.acknowledged(word.first), "an acknowledgement of what was not sent");
      return;
    case Word::Kind::Message:
      break;
  }
  switch (to.association.arrived(link, {word.first, word.second}, 8)) {
    case Association::Arrival::Next:
      check(word.value == to.heard, "a message came twice, or out of order");
      ++to.heard;
      return;
    case Association::Arrival::Wrong:
      check(false, "a message is wrong");
      return;
    default:
      return;
  }
}

/// This side sees that the connection is gone.
void Network::notice(Link link, int side) {
  wires[link].open[side] = false;
  wires[link].broken = true;
  (void)sides[side].association.broken(link);
}

void Network::step(bool faults) {
  const int side = static_cast<int>(below(2));
  Side& one = sides[side];
  const std::uint64_t what = below(100);
  if (what < 25 && faults) return one.say();
  if (what < 32) return one.association.open();
  if (what < 36 && faults && !wires.empty()) {  // it breaks; what is on its way is lost, or not yet
    auto at = wires.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(below(wires.size())));
    at->second.broken = true;
    if (below(2) == 0) at->second.to[0].clear();
    if (below(2) == 0) at->second.to[1].clear();
    return;
  }
  if (wires.empty()) return;
  auto at = wires.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(below(wires.size())));
  const Link link = at->first;
  Wire& wire = at->second;
  if (!wire.connected && wire.opener == side && wire.open[side] && !wire.broken) {
    wire.connected = true;
    return one.association.established(link);
  }
  if (!wire.to[side].empty()) return deliver(link, side);
  if (wire.broken && wire.open[side]) return notice(link, side);
  if (wire.broken && !wire.open[0] && !wire.open[1]) wires.erase(at);
}

void Network::run(int steps, bool faults) {
  for (int i = 0; i < steps && failure_.empty(); ++i) step(faults);
}

std::uint64_t runs() {
  const char* said = std::getenv("LOCKSTEP_ASSOCIATION_RUNS");
  return said == nullptr ? 20'000 : std::strtoull(said, nullptr, 10);
}

TEST(Association, AnyBreaksAndCrossings_EveryMessageOnceAndInOrder) {
  std::uint64_t breaks = 0, heard = 0;
  for (std::uint64_t seed = 1; seed <= runs(); ++seed) {
    Network network(seed);
    network.run(300, true);
    network.run(4'000, false);  // the network is well again
    for (const int side : {0, 1}) {
      const Side& to = network.sides[side];
      const Side& from = network.sides[1 - side];
      ASSERT_EQ(network.failure(), "") << "seed " << seed;
      ASSERT_EQ(to.heard, from.said) << "seed " << seed << ", side " << side;
      ASSERT_TRUE(to.association.up()) << "seed " << seed;
      ASSERT_EQ(to.association.link(), from.association.link()) << "seed " << seed;
      heard += to.heard;
    }
    breaks += network.last;
  }
  EXPECT_GT(breaks, 3 * runs());
  EXPECT_GT(heard, 50 * runs());
}

TEST(Association, TwoThatOpenAtOnce_KeepOneConnection) {
  Network network(7);
  Association& zero = network.sides[0].association;
  Association& one = network.sides[1].association;
  zero.open();
  one.open();
  zero.established(1);
  one.established(2);
  one.introduced(1, 1, 0);
  zero.introduced(2, 1, 0);
  one.answered(2, 0);
  EXPECT_TRUE(zero.up() && one.up());
  EXPECT_EQ(zero.link(), 2U);
  EXPECT_EQ(one.link(), 2U);
}

/// Both sides connected, by what side 1 opened.
void connect(Network& network) {
  network.sides[1].association.open();
  network.run(2'000, false);
  ASSERT_TRUE(network.sides[0].association.up());
  ASSERT_TRUE(network.sides[1].association.up());
}

TEST(Association, WhatThePeerHas_IsNotKept) {
  Network network(7);
  connect(network);
  for (std::uint64_t i = 0; i < Association::kAcknowledgeMessages; ++i) network.sides[0].say();
  EXPECT_EQ(network.sides[0].association.kept_bytes(), 8 * Association::kAcknowledgeMessages);
  network.run(4'000, false);
  EXPECT_EQ(network.sides[0].association.kept_bytes(), 0U);
}

TEST(Association, NumbersThatCannotBe_AreWrong) {
  Network network(7);
  connect(network);
  Association& one = network.sides[0].association;
  EXPECT_EQ(one.arrived(one.link(), {1, 0}, 8), Association::Arrival::Wrong) << "0 is missing";
  EXPECT_EQ(one.arrived(one.link(), {0, 1}, 8), Association::Arrival::Wrong) << "nothing was sent";
  EXPECT_FALSE(one.acknowledged(1));
  EXPECT_EQ(one.arrived(one.link(), {0, 0}, 8), Association::Arrival::Next);
  EXPECT_EQ(one.arrived(one.link(), {0, 0}, 8), Association::Arrival::Again);
  EXPECT_EQ(one.arrived(one.link() + 1, {1, 0}, 8), Association::Arrival::Stale);
}

TEST(Association, PeerThatHasWhatItWasNeverSent_GetsNoConnection) {
  Network network(7);
  connect(network);
  Association& one = network.sides[0].association;
  network.wires[99].opener = 1;
  one.introduced(99, 50, 1);
  EXPECT_EQ(one.state(), Association::State::Closed);
}

TEST(Association, WordThatWasOnItsWayForLong_TakesNoConnectionAway) {
  Network network(7);
  connect(network);
  Association& one = network.sides[0].association;
  const Link link = one.link();
  network.wires[99].opener = 1;
  one.introduced(99, 1, 0);
  EXPECT_EQ(one.link(), link);
  EXPECT_FALSE(network.wires[99].open[0]);
}

}  // namespace
}  // namespace lockstep::collectives::tcp_association_test
