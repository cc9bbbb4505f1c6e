// The time of kernels on a device, as data: the section "device" of a cost model. A roofline model:
// a kernel takes the longest of three times, those of its launch, its memory traffic and its
// arithmetic. All rates are whole numbers per microsecond and all times whole nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::worker::simulator {

/// The type in which a kernel computes.
enum class Precision : std::uint8_t { F64, F32, F16, BF16 };
inline constexpr std::array<std::string_view, 4> kPrecisionNames = {"f64", "f32", "f16", "bf16"};

/// Rates that a device reaches, below its peaks. Value type.
struct DeviceModel {
  std::string name;
  std::int64_t bytes_per_us = 0;                  // bandwidth of its memory; 1,000 is 1 GB/s
  std::array<std::int64_t, 4> flops_per_us = {};  // by Precision; 0: unknown
  std::int64_t launch_ns = 0;                     // least time of a kernel
  std::int64_t memory_bytes = 0;                  // 0: unknown

  [[nodiscard]] std::int64_t rate_of(Precision precision) const {
    return flops_per_us[static_cast<std::size_t>(precision)];
  }
  bool operator==(const DeviceModel&) const = default;
};

/// An amount that grows with the elements of a rank's tensors.
struct Amount {
  std::int64_t constant = 0, per_element = 0;

  /// At most INT64_MAX. Requires elements >= 0.
  [[nodiscard]] std::int64_t of(std::int64_t elements) const;
  bool operator==(const Amount&) const = default;
};

/// Equal kernels of a step, one after the other.
struct KernelWork {
  std::int64_t count = 1;
  Amount bytes;  // read and written by one kernel
  Amount flops;  // computed by one kernel
  Precision precision = Precision::F32;
  bool operator==(const KernelWork&) const = default;
};

/// Returns the time of all `work.count` kernels on a rank with `elements` elements. At most
/// kLongest.
[[nodiscard]] std::int64_t kernels_ns(const KernelWork& work, const DeviceModel& device,
                                      std::int64_t elements);

/// "a100", "h100", "h200", "b200": the SXM modules. Peaks are NVIDIA's; the fraction of a peak that
/// kernels reach is assumed (../input/cost.md, "Devices and their network").
[[nodiscard]] std::vector<std::string_view> device_names();
[[nodiscard]] std::optional<DeviceModel> device_preset(std::string_view name);

}  // namespace lockstep::worker::simulator
