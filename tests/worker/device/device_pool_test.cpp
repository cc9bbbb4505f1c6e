// Memory of a run: random sequences against the pool's policy, said as a search through a list.
#include <algorithm>
#include <random>

#include "emulated_device.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/device/device_pool.h>

namespace lockstep::worker::device_pool_test {
namespace {

/// What the pool should do, by looking through all blocks.
struct Reference {
  struct Block {
    DeviceAddress address;
    std::size_t bytes;
    bool used;
  };
  std::vector<Block> blocks;
  std::size_t capacity;

  [[nodiscard]] std::size_t total() const {
    std::size_t sum = 0;
    for (const Block& block : blocks) sum += block.bytes;
    return sum;
  }
  /// The block to be handed out again, if any.
  Block* fit(std::size_t bytes) {
    Block* best = nullptr;
    for (Block& block : blocks) {
      if (block.used || block.bytes < bytes || 5 * (block.bytes - bytes) > block.bytes) continue;
      if (best == nullptr ||
          std::pair(block.bytes, block.address) < std::pair(best->bytes, best->address))
        best = &block;
    }
    return best;
  }
  /// Asks a device of that capacity for more; false if it has none.
  bool grow(std::size_t bytes) {
    if (total() + bytes > capacity)
      std::erase_if(blocks, [](const Block& block) { return !block.used; });
    return total() + bytes <= capacity;
  }
};

TEST(DevicePool, RandomSequences_AsThePolicySays) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto device = std::make_shared<EmulatedDevice>();
    Reference reference{{}, 40 * DevicePool::kGrain};
    device->set_capacity(reference.capacity);
    {
      DevicePool pool(device);
      for (int step = 0; step < 2000; ++step) {
        std::vector<Reference::Block*> used;
        for (auto& block : reference.blocks)
          if (block.used) used.push_back(&block);
        if (!used.empty() && random() % 2 == 0) {
          Reference::Block* block = used[random() % used.size()];
          pool.give_back(block->address);
          block->used = false;
        } else {
          const std::size_t asked = 1 + random() % (12 * DevicePool::kGrain);
          const std::size_t bytes =
              (asked + DevicePool::kGrain - 1) / DevicePool::kGrain * DevicePool::kGrain;
          const auto taken = pool.take(asked);
          ASSERT_TRUE(taken.has_value());
          if (Reference::Block* fit = reference.fit(bytes)) {
            ASSERT_EQ(*taken, fit->address);
            fit->used = true;
          } else {
            ASSERT_EQ(taken->has_value(), reference.grow(bytes));
            if (*taken) reference.blocks.push_back({**taken, bytes, true});
          }
        }
        std::size_t in_use = 0;
        for (const auto& block : reference.blocks) in_use += block.used ? block.bytes : 0;
        ASSERT_EQ(pool.used(), in_use);
        ASSERT_EQ(pool.used() + pool.kept(), reference.total());
        ASSERT_EQ(device->live_bytes(), reference.total());
      }
    }
    EXPECT_EQ(device->live_bytes(), 0U);
  }
}

TEST(DevicePool, BlockThatIsPartedWith_OutlivesThePool) {
  const auto device = std::make_shared<EmulatedDevice>();
  std::shared_ptr<const DeviceBlock> kept;
  {
    DevicePool pool(device);
    const auto first = pool.take(1000), second = pool.take(1000);
    ASSERT_TRUE(first && *first && second && *second);
    kept = pool.release_to_caller(**first);
    EXPECT_EQ(pool.used(), 1024U);
  }
  EXPECT_EQ(device->live_bytes(), 1024U);
  kept.reset();
  EXPECT_EQ(device->live_bytes(), 0U);
}

}  // namespace
}  // namespace lockstep::worker::device_pool_test
