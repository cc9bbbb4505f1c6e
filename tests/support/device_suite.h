// What every device has to do. Called by the tests of the emulated device and of GPUs.
#pragma once

#include <lockstep/worker/compile/device/device.h>

namespace lockstep::worker {

/// Compares products with the host's: both dtypes, all transpositions, sizes 0, 1, 2, 5 and odd
/// ones. Nothing may be written beyond the result.
void expect_products(Device& device);
/// Expects zeros exactly where they were asked for, correct copies, and idle() after all work.
void expect_zeros_and_copies(Device& device);
/// Expects that recorded work does not run while it is recorded, and all of it runs at every
/// launch, on the values at that time. Memory may be allocated and freed meanwhile.
void expect_recordings(Device& device);
/// Expects that a call that is not allowed in a recording is an error at the call and at the
/// recording's end, and that the device works afterwards.
void expect_flawed_recordings_refused(Device& device);

}  // namespace lockstep::worker
