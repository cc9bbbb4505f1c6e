// The matrix products of one step on a device. Pure; used by the device backend.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/codegen/program.h>
#include <lockstep/worker/device/device.h>

namespace lockstep::worker {

/// Of a Matmul, SegmentMatmul or SegmentOuter step: its operands' and its result's addresses in the
/// order of step.buffers, its numbers in that of step.args, and for segments their counts
/// (checked).
[[nodiscard]] std::vector<Product> products_of(const Step& step, DType dtype,
                                               std::span<const DeviceAddress> at,
                                               std::span<const std::int64_t> numbers,
                                               std::span<const std::int64_t> counts);

}  // namespace lockstep::worker
