// What a rank observes through the C interface, as the exchange has it.
#include "handle.h"
#include <gtest/gtest.h>

namespace lockstep::capi::observation_test {
namespace {

using Orders = std::vector<std::int64_t>;

TEST(CapiObservation, StridesBecomeTheOrderOfTheDims_SourcesByName) {
  lockstep_observation seen;
  std::size_t y = 0, x = 0;
  ASSERT_EQ(lockstep_observe_tensor(&seen, "y", LOCKSTEP_F32, 3, &y), LOCKSTEP_OK);
  ASSERT_EQ(lockstep_observe_tensor(&seen, "x", LOCKSTEP_F32, 2, &x), LOCKSTEP_OK);
  const std::int64_t sizes[] = {2, 3, 4}, strides[] = {3, 1, 6}, plain[] = {12, 4, 1};
  ASSERT_EQ(lockstep_set_sizes(&seen, y, sizes, plain), LOCKSTEP_OK);
  EXPECT_EQ(seen.current().orders, Orders{}) << "nothing to say";
  ASSERT_EQ(lockstep_set_sizes(&seen, y, sizes, strides), LOCKSTEP_OK);
  EXPECT_EQ(seen.current().orders, (Orders{0, 0x312})) << "2, 0, 1 from the outermost";
  ASSERT_EQ(lockstep_set_sizes(&seen, x, sizes, strides + 1), LOCKSTEP_OK);
  EXPECT_EQ(seen.current().orders, (Orders{0x11, 0x312}));
  ASSERT_EQ(lockstep_set_sizes(&seen, y, sizes, nullptr), LOCKSTEP_OK);
  EXPECT_EQ(seen.current().orders, (Orders{0x11, 0}));
  const std::int64_t all[] = {2, 3, 4, 2, 3};
  ASSERT_EQ(lockstep_set_all(&seen, all, 5), LOCKSTEP_OK);
  EXPECT_EQ(seen.current().orders, Orders{}) << "tensors become contiguous";
}

}  // namespace
}  // namespace lockstep::capi::observation_test
