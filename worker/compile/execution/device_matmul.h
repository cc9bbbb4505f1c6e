// The matrix products of one step on a device. Pure; used by the device backend.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/device/device.h>

namespace lockstep::worker {

/// Returns the products of a Matmul, SegmentMatmul or SegmentOuter step. `at`: addresses of
/// operands and result in the order of step.buffers. `numbers`: in the order of step.args.
/// `counts`: rows of each segment, already checked.
[[nodiscard]] std::vector<Product> products_of(const Step& step, DType dtype,
                                               std::span<const DeviceAddress> at,
                                               std::span<const std::int64_t> numbers,
                                               std::span<const std::int64_t> counts);

}  // namespace lockstep::worker
