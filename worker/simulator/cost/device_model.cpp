#include <algorithm>

#include <lockstep/worker/simulator/cost/device_model.h>
#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {
namespace {

/// Peaks, in 10^9 bytes and 10^12 operations per second, from NVIDIA's data sheets of the SXM
/// modules: f64 and f32 without tensor cores, bf16 (and f16) with them and without sparsity.
struct Peaks {
  std::string_view name;
  std::int64_t gigabytes_per_s;
  double f64, f32, bf16;
  std::int64_t memory_gb;
};
constexpr Peaks kPeaks[] = {
    {"a100", 2'039, 9.7, 19.5, 312, 80},
    {"h100", 3'350, 34, 67, 989, 80},
    {"h200", 4'800, 34, 67, 989, 141},
    {"b200", 8'000, 40, 80, 2'250, 180},
};

// Assumed, not measured: the percentage of a peak that kernels reach, and the nanoseconds of a
// launch when launches run ahead of the device.
constexpr std::int64_t kReachedOfMemory = 90, kReachedOfArithmetic = 70;
constexpr std::int64_t kLaunch = 2'500;

std::int64_t arithmetic(double teraflops) {
  return static_cast<std::int64_t>(teraflops * 10) * 100'000 * kReachedOfArithmetic / 100;
}

}  // namespace

std::int64_t Amount::of(std::int64_t elements) const {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(per_element, elements, &out) ||
      __builtin_add_overflow(out, constant, &out))
    return INT64_MAX;
  return out;
}

std::int64_t kernels_ns(const KernelWork& work, const DeviceModel& device, std::int64_t elements) {
  const auto time = [elements](const Amount& amount, std::int64_t per_us) {
    return transfer_ns(static_cast<std::uint64_t>(amount.of(elements)), per_us);
  };
  const std::int64_t one = std::max({device.launch_ns, time(work.bytes, device.bytes_per_us),
                                     time(work.flops, device.rate_of(work.precision))});
  std::int64_t all = 0;
  if (__builtin_mul_overflow(one, work.count, &all)) return kLongest;
  return std::min(all, kLongest);
}

std::vector<std::string_view> device_names() {
  std::vector<std::string_view> out;
  for (const Peaks& known : kPeaks) out.push_back(known.name);
  return out;
}

std::optional<DeviceModel> device_preset(std::string_view name) {
  const auto* known = std::find_if(std::begin(kPeaks), std::end(kPeaks),
                                   [&](const Peaks& peaks) { return peaks.name == name; });
  if (known == std::end(kPeaks)) return std::nullopt;
  const std::int64_t half = arithmetic(known->bf16);
  return DeviceModel{.name = std::string(name),
                     .bytes_per_us = known->gigabytes_per_s * 1'000 * kReachedOfMemory / 100,
                     .flops_per_us = {arithmetic(known->f64), arithmetic(known->f32), half, half},
                     .launch_ns = kLaunch,
                     .memory_bytes = known->memory_gb * 1'000'000'000};
}

}  // namespace lockstep::worker::simulator
