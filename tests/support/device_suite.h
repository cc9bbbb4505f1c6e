// What every device has to do, whatever it is: called by the tests of the emulated one and of GPUs.
#pragma once

#include <lockstep/worker/device/device.h>

namespace lockstep::worker {

/// Against the products of the host: both dtypes, all transpositions, sizes 0, 1, 2, 5 and odd
/// ones, with nothing written beyond the result.
void expect_products(Device& device);
/// Zeros where they are asked for and nowhere else; idle once all is waited for.
void expect_zeros_and_copies(Device& device);
/// Nothing happens while it is recorded, all of it at every launch, on the values of then; memory
/// may come and go meanwhile.
void expect_recordings(Device& device);
/// What has no place in a recording is an error there and at its end, and the device works on.
void expect_flawed_recordings_refused(Device& device);

}  // namespace lockstep::worker
