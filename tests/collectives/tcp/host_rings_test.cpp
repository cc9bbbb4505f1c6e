// Rings in memory that the ranks of a host share: what is written is read, once and in order,
// whatever the lengths; no room loses nothing; nobody sleeps over what has come; what is no message
// is not believed.
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include <lockstep/collectives/tcp/host_rings.h>

namespace lockstep::collectives::host_rings_test {
namespace {

Bytes random_bytes(std::mt19937_64& random, std::size_t most) {
  // Short ones are the rule; some fill a ring.
  const std::size_t length = random() % (random() % 8 == 0 ? most + 1 : 90);
  Bytes out(length);
  for (std::byte& one : out) one = static_cast<std::byte>(random());
  return out;
}

TEST(SharedRing, WhatIsWrittenIsRead_OnceAndInOrder_WhateverTheLengths) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    const auto ring = std::make_unique<SharedRing>();
    constexpr int kMessages = 20'000;
    std::thread writer([&] {
      std::mt19937_64 random(seed);
      RingWriter out(*ring);
      for (int i = 0; i < kMessages; ++i) {
        const Bytes message = random_bytes(random, SharedRing::kMostBytes);
        const std::size_t head = message.empty() ? 0 : random() % message.size();
        const auto all = std::span(message);
        while (!out.write(all.first(head), all.subspan(head))) ::sched_yield();
      }
    });
    std::mt19937_64 random(seed);
    RingReader in(*ring);
    int wrong = 0;
    for (int i = 0; i < kMessages; ++i) {
      const Bytes expected = random_bytes(random, SharedRing::kMostBytes);
      if (!expected.empty()) (void)random();
      auto next = in.next();
      for (; next && next->data() == nullptr; next = in.next()) ::sched_yield();
      if (!next || !std::equal(next->begin(), next->end(), expected.begin(), expected.end()))
        ++wrong;
      in.took();
    }
    writer.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(in.empty());
  }
}

TEST(SharedRing, FullRing_TakesNothingUntilThereIsRoom) {
  const auto ring = std::make_unique<SharedRing>();
  RingWriter out(*ring);
  RingReader in(*ring);
  const Bytes message(1'000, std::byte{7});
  std::size_t written = 0;
  while (out.write(message, {})) ++written;
  EXPECT_EQ(written, SharedRing::kBytes / 1'008);
  EXPECT_FALSE(out.write({}, Bytes(600)));
  ASSERT_EQ(in.next()->size(), 1'000u);
  in.took();
  EXPECT_TRUE(out.write(message, {}));
  EXPECT_FALSE(out.write(message, {}));
}

TEST(SharedRing, WhatIsNoMessage_IsNotBelieved) {
  const auto with = [](std::uint64_t written, std::uint64_t length) {
    auto ring = std::make_unique<SharedRing>();
    ring->written = written;
    std::memcpy(ring->bytes.data(), &length, sizeof length);
    RingReader in(*ring);
    const auto next = in.next();
    return next.has_value() && next->data() != nullptr;
  };
  EXPECT_TRUE(with(16, 8));
  EXPECT_TRUE(with(16, 3)) << "made up to eight bytes";
  EXPECT_FALSE(with(16, 9)) << "longer than what is written";
  EXPECT_FALSE(with(12, 4)) << "no multiple of eight";
  EXPECT_FALSE(with(SharedRing::kBytes + 8, 8)) << "more than the ring holds";
  EXPECT_FALSE(with(SharedRing::kBytes, SharedRing::kMostBytes + 1)) << "longer than any message";
  EXPECT_FALSE(with(16, ~std::uint64_t{0})) << "a gap with nothing behind it";
  EXPECT_FALSE(with(16, ~std::uint64_t{0} - 3)) << "a length that overflows";
}

/// The rings of all ranks of a host, in one process.
std::vector<std::unique_ptr<HostRings>> rings_of(int ranks) {
  std::vector<std::unique_ptr<HostRings>> out;
  std::string name;
  out.push_back(HostRings::create(ranks, 0, name).value());
  for (int r = 1; r < ranks; ++r) out.push_back(HostRings::open(name, ranks, r).value());
  SharedMemory::unlink(name);
  return out;
}

const auto nobody = [](int) {};

TEST(HostRings, LongMessagesToAll_ComeInPieces_WhileTheirRingsAreFull) {
  constexpr int kRanks = 3;
  constexpr std::size_t kBytes = 300'000;
  const auto rings = rings_of(kRanks);
  const auto content = [](int from, int to, std::size_t i) {
    return static_cast<std::byte>(static_cast<std::size_t>(from * 5 + to * 3) + i * 7 + i / 251);
  };
  for (int from = 0; from < kRanks; ++from)
    for (int to = 0; to < kRanks; ++to) {
      if (to == from) continue;
      Bytes message(kBytes);
      for (std::size_t i = 0; i < kBytes; ++i) message[i] = content(from, to, i);
      auto& mine = *rings[static_cast<std::size_t>(from)];
      ASSERT_TRUE(mine.reaches(to));
      mine.send(to, 9, Part::Kind::Data, kBytes, message);
      EXPECT_TRUE(mine.full());
      EXPECT_GT(mine.waiting(to), kBytes - SharedRing::kBytes);
    }
  std::vector<Bytes> heard(kRanks * kRanks);
  int farewells = 0;
  for (int turn = 0; turn < 100 && farewells < kRanks * (kRanks - 1); ++turn)
    for (int to = 0; to < kRanks; ++to)
      for (int from = 0; from < kRanks; ++from) {
        if (to == from) continue;
        auto& theirs = *rings[static_cast<std::size_t>(from)];
        theirs.flush(nobody);
        Bytes& of = heard[static_cast<std::size_t>(from * kRanks + to)];
        ASSERT_TRUE(rings[static_cast<std::size_t>(to)]->receive(from, [&](Part part) {
          EXPECT_EQ(part.group, 9u);
          if (part.kind == Part::Kind::Farewell) {
            EXPECT_EQ(of.size(), kBytes) << "the last word came before the others";
            ++farewells;
            return;
          }
          EXPECT_EQ(part.total, kBytes);
          of.insert(of.end(), part.bytes.begin(), part.bytes.end());
        }));
        // There is room now, and earlier ones wait for it.
        if (turn == 0) theirs.send(to, 9, Part::Kind::Farewell, 0, {});
      }
  EXPECT_EQ(farewells, kRanks * (kRanks - 1));
  for (int from = 0; from < kRanks; ++from) {
    EXPECT_FALSE(rings[static_cast<std::size_t>(from)]->full());
    for (int to = 0; to < kRanks; ++to) {
      if (to == from) continue;
      const Bytes& of = heard[static_cast<std::size_t>(from * kRanks + to)];
      ASSERT_EQ(of.size(), kBytes);
      for (std::size_t i = 0; i < kBytes; ++i)
        ASSERT_EQ(of[i], content(from, to, i)) << from << " to " << to << ", byte " << i;
    }
  }
}

TEST(HostRings, NobodySleepsOverWhatHasCome) {
  // Each side sleeps until it is woken and nothing else: a bell that is not rung is a hang.
  constexpr int kRounds = 100'000;
  const auto rings = rings_of(2);
  std::counting_semaphore<> bells[2] = {std::counting_semaphore<>(0), std::counting_semaphore<>(0)};
  std::atomic<int> slept{0};
  const auto side = [&](int self) {
    HostRings& mine = *rings[static_cast<std::size_t>(self)];
    ASSERT_TRUE(mine.reaches(1 - self));
    int heard = 0;
    for (int round = 0; round < kRounds; ++round) {
      if (mine.send(1 - self, 0, Part::Kind::Bare, 0, {})) bells[1 - self].release();
      while (heard <= round) {
        ASSERT_TRUE(mine.receive(1 - self, [&](const Part&) { ++heard; }));
        if (heard > round) break;
        if (mine.sleeps()) {
          ++slept;
          const bool woken = bells[self].try_acquire_for(std::chrono::seconds(20));
          ASSERT_TRUE(woken) << "round " << round;
        }
        mine.wakes();
      }
    }
  };
  std::thread other(side, 1);
  side(0);
  other.join();
  EXPECT_GT(slept.load(), 0);
}

TEST(HostRings, RankThatMakesNoSense_IsNotBelieved) {
  const auto rings = rings_of(2);
  ASSERT_TRUE(rings[0]->reaches(1));
  rings[0]->send(1, 0, static_cast<Part::Kind>(99), 0, {});
  EXPECT_FALSE(rings[1]->receive(0, [](const Part&) { FAIL() << "a kind that there is not"; }));
}

TEST(HostRings, MemoryOfAnotherKind_IsRefused) {
  const auto memory = SharedMemory::create("test", 1 << 20, 4096).value();
  const auto opened = HostRings::open(memory.name(), 2, 1);
  SharedMemory::unlink(memory.name());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Environment);
  const auto gone = HostRings::open(memory.name(), 2, 1);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("Cannot open the shared memory " + memory.name()),
            std::string::npos);
  EXPECT_FALSE(memory.reserve(0, std::size_t{1} << 50)) << "no machine has so much";
}

}  // namespace
}  // namespace lockstep::collectives::host_rings_test
