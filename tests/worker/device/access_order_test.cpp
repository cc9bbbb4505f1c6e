// Random streams, events and waits: what the order finds is what a search through all paths finds.
#include "access_order.h"

#include <random>

#include <gtest/gtest.h>

namespace lockstep::access_order_test {
namespace {

/// What comes before what, as edges between pieces of work; the host's waits are pieces too.
class Paths {
 public:
  int add(std::vector<int> before) {
    before_.push_back(std::move(before));
    return static_cast<int>(before_.size()) - 1;
  }
  [[nodiscard]] bool lead(int from, int to) const {
    if (from == to) return true;
    for (int before : before_[static_cast<std::size_t>(to)])
      if (lead(from, before)) return true;
    return false;
  }

 private:
  std::vector<std::vector<int>> before_;
};

TEST(AccessOrder, RandomWork_IsUnorderedWhereNoPathLeads) {
  int unordered = 0, ordered = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    constexpr int kStreams = 3;
    AccessOrder order;
    Paths paths;
    std::vector<int> last(kStreams, -1), host;
    std::vector<std::pair<AccessOrder::Time, int>> events;
    std::vector<std::pair<AccessOrder::Access, int>> done;
    for (int s = 0; s < kStreams; ++s) EXPECT_EQ(order.add_stream(), s);
    for (int step = 0; step < 16; ++step) {
      const int stream = static_cast<int>(random() % kStreams);
      int& end = last[static_cast<std::size_t>(stream)];
      const auto next = [&](std::vector<int> before) {
        if (end >= 0) before.push_back(end);
        end = paths.add(std::move(before));
      };
      switch (random() % 6) {
        case 0:
          events.emplace_back(order.now(stream), end);
          // An event comes after what the host has waited for, too.
          if (!host.empty()) {
            std::vector<int> before{host.back()};
            if (end >= 0) before.push_back(end);
            events.back().second = paths.add(before);
          }
          break;
        case 1:
          if (events.empty()) break;
          {
            const auto& [time, at] = events[random() % events.size()];
            order.follow(stream, time);
            if (at >= 0) next({at});
          }
          break;
        case 2: {
          order.waited_for(stream);
          std::vector<int> before = host;
          if (end >= 0) before.push_back(end);
          host = {paths.add(before)};
          break;
        }
        default: {
          const AccessOrder::Access access{random() % 8, 1 + random() % 3, random() % 2 == 0};
          next(host);
          bool expected = true;
          for (const auto& [other, at] : done)
            if ((access.writes || other.writes) && access.at < other.at + other.bytes &&
                other.at < access.at + access.bytes)
              expected = expected && paths.lead(at, end);
          EXPECT_EQ(order.put(stream, {&access, 1}).empty(), expected) << step;
          (expected ? ordered : unordered) += 1;
          done.emplace_back(access, end);
        }
      }
    }
  }
  EXPECT_GT(unordered, 500);
  EXPECT_GT(ordered, 500);
}

TEST(AccessOrder, NewMemoryWhereOtherWas_IsItsStreamsAlone) {
  AccessOrder order;
  const int a = order.add_stream(), b = order.add_stream();
  const AccessOrder::Access whole{100, 10, true}, part{104, 2, false};
  EXPECT_EQ(order.put(a, {&whole, 1}), "");
  order.made(b, 100, 10);
  EXPECT_EQ(order.put(b, {&part, 1}), "");
  EXPECT_EQ(order.put(a, {&part, 1}), "stream 0 reads memory that stream 1 writes, in no order");
}

}  // namespace
}  // namespace lockstep::access_order_test
