// Reads the devices of a cost section: "device": "h100", "data_network": "dgx_h100", and the
// kernels and memory of steps.
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

}  // namespace

/// Reads a name, or {"memory_gbps": 1800, "memory_gb": 80, "launch_us": 3, "tflops": {"f32": 15}}.
bool ScenarioReader::read_device(const Json& json, const JsonPath& path, DeviceModel& out) {
  if (const auto* name = json.as<std::string>()) {
    const auto preset = device_preset(*name);
    if (!preset)
      return fail(path, fmt::format("{} is not one of {}", in_quotes(*name),
                                    fmt::join(device_names(), ", ")));
    out = *preset;
    return true;
  }
  out.name = "own";
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"memory_gbps", "memory_gb", "launch_us", "tflops"}) ||
      !microseconds(json, path, "launch_us", out.launch_ns))
    return false;
  const Json* rate = required(json, path, "memory_gbps");
  double gigabytes = 0;
  if (rate == nullptr || !real(*rate, path.at("memory_gbps"), 0.001, 1e6, gigabytes)) return false;
  out.bytes_per_us = std::llround(gigabytes * 1000);
  if (const Json* memory = json.find("memory_gb")) {
    if (!real(*memory, path.at("memory_gb"), 0.001, 1e6, gigabytes)) return false;
    out.memory_bytes = std::llround(gigabytes * 1e9);
  }
  const Json* rates = json.find("tflops");
  return rates == nullptr || read_rates(*rates, path.at("tflops"), out);
}

bool ScenarioReader::read_rates(const Json& json, const JsonPath& path, DeviceModel& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"f64", "f32", "f16", "bf16"}))
    return false;
  for (std::size_t i = 0; i < kPrecisionNames.size(); ++i) {
    const Json* rate = json.find(kPrecisionNames[i]);
    double teraflops = 0;
    if (rate == nullptr) continue;
    if (!real(*rate, path.at(kPrecisionNames[i]), 0.001, 1e6, teraflops)) return false;
    out.flops_per_us[i] = std::llround(teraflops * 1e6);
  }
  return true;
}

/// Reads the parts of a step that need a device.
bool ScenarioReader::read_device_step(const Json& json, const JsonPath& path,
                                      const std::optional<DeviceModel>& device, StepModel& out) {
  const Json *kernels = json.find("kernels"), *memory = json.find("memory");
  if (!device && (kernels != nullptr || memory != nullptr))
    return fail(path.at(kernels != nullptr ? "kernels" : "memory"), "this needs the key device");
  if (memory != nullptr) {
    const JsonPath at = path.at("memory");
    if (object(*memory, at) == nullptr || !known_keys(*memory, at, {"bytes", "bytes_per_element"}))
      return false;
    if (!read_amount(*memory, at, "bytes", out.memory.emplace())) return false;
  }
  if (kernels == nullptr) return true;
  const JsonPath at = path.at("kernels");
  if (array(*kernels, at) == nullptr) return false;
  constexpr std::size_t kMost = 1000;
  const auto& list = *kernels->as<Json::Array>();
  if (list.size() > kMost)
    return fail(at, fmt::format("{} kernels, where at most {} are possible (use count)",
                                list.size(), kMost));
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_kernel(list[i], at.at(i), *device, out.kernels.emplace_back())) return false;
  return true;
}

/// Reads {"count": 24, "bytes_per_element": 16, "flops": 1000000, "dtype": "bf16"}.
bool ScenarioReader::read_kernel(const Json& json, const JsonPath& path, const DeviceModel& device,
                                 KernelWork& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path,
                  {"count", "bytes", "bytes_per_element", "flops", "flops_per_element", "dtype"}) ||
      !read_amount(json, path, "bytes", out.bytes) || !read_amount(json, path, "flops", out.flops))
    return false;
  if (const Json* count = json.find("count"))
    if (!integer(*count, path.at("count"), 1, 1'000'000, out.count)) return false;
  auto precision = static_cast<std::size_t>(out.precision);
  if (const Json* dtype = json.find("dtype"))
    if (!choice(*dtype, path.at("dtype"), kPrecisionNames, precision)) return false;
  out.precision = static_cast<Precision>(precision);
  if (out.flops != Amount{} && device.rate_of(out.precision) == 0)
    return fail(path, fmt::format("the device has no tflops of {}", kPrecisionNames[precision]));
  return true;
}

/// Reads NAME and NAME_per_element; a missing one is 0.
bool ScenarioReader::read_amount(const Json& json, const JsonPath& path, const std::string& name,
                                 Amount& out) {
  const std::string each = name + "_per_element";
  const std::int64_t most = name == "bytes" ? kMostBytes : INT64_MAX;
  const Json *constant = json.find(name), *per_element = json.find(each);
  return (constant == nullptr || integer(*constant, path.at(name), 0, most, out.constant)) &&
         (per_element == nullptr || integer(*per_element, path.at(each), 0, most, out.per_element));
}

/// Reads a name, or {"ranks_per_host": 8, "within": "nvlink4", "between": "infiniband_ndr"}.
bool ScenarioReader::read_data_network(const Json& json, const JsonPath& path, DataNetwork& out) {
  if (const auto* name = json.as<std::string>()) {
    const auto preset = data_network_preset(*name);
    if (!preset)
      return fail(path, fmt::format("{} is not one of {}", in_quotes(*name),
                                    fmt::join(data_network_names(), ", ")));
    out = *preset;
    if (ranks_per_host_ > out.ranks_per_host)
      return fail(path, fmt::format("{} has {} devices a host, and the generator {} ranks", *name,
                                    out.ranks_per_host, ranks_per_host_));
    if (ranks_per_host_ > 0) out.ranks_per_host = static_cast<std::int32_t>(ranks_per_host_);
    return true;
  }
  out.name = "own";
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"ranks_per_host", "within", "between", "staging"}))
    return false;
  std::int64_t ranks = std::max<std::int64_t>(ranks_per_host_, 1);
  if (const Json* given = json.find("ranks_per_host"))
    if (!integer(*given, path.at("ranks_per_host"), 1, kMaxWorldSize, ranks)) return false;
  out.ranks_per_host = static_cast<std::int32_t>(ranks);
  const Json *within = json.find("within"), *between = json.find("between");
  if (within != nullptr && !read_named_link(*within, path.at("within"), out.within)) return false;
  if (between != nullptr && !read_named_link(*between, path.at("between"), out.between))
    return false;
  if (const Json* staging = json.find("staging"))
    if (!read_named_link(*staging, path.at("staging"), out.staging.emplace())) return false;
  return hosts_fit(path, out, within != nullptr, between != nullptr);
}

/// Checks that links are given for ranks that share a host, and for ranks on several hosts.
bool ScenarioReader::hosts_fit(const JsonPath& path, const DataNetwork& network, bool within,
                               bool between) {
  const std::int32_t in_host = network.ranks_per_host;
  if (!within && std::min(in_host, world_size_) > 1)
    return fail(path, fmt::format("{} ranks share a host, and within does not say their link",
                                  std::min(in_host, world_size_)));
  if (!between && in_host < world_size_)
    return fail(path, fmt::format("{} ranks are on hosts of {}, and between does not say their "
                                  "link",
                                  world_size_, in_host));
  return true;
}

/// Reads a name, or {"alpha_us": 2, "beta_gbps": 300}.
bool ScenarioReader::read_named_link(const Json& json, const JsonPath& path, Link& out) {
  if (const auto* name = json.as<std::string>()) {
    const auto preset = link_preset(*name);
    if (!preset)
      return fail(path, fmt::format("{} is not one of {}", in_quotes(*name),
                                    fmt::join(link_names(), ", ")));
    out = *preset;
    return true;
  }
  return object(json, path) != nullptr && known_keys(json, path, {"alpha_us", "beta_gbps"}) &&
         read_link(json, path, out);
}

}  // namespace lockstep::worker::simulator
