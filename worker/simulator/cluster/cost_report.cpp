#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cluster/json_text.h>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Percentiles& of) {
  return {{"p50", of.p50}, {"p90", of.p90}, {"p99", of.p99}, {"max", of.max}};
}

ordered_json json_of(const Link& link) {
  return {{"latency_ns", link.latency_ns}, {"bytes_per_us", link.bytes_per_us}};
}

ordered_json network_json(const NetworkModel& network) {
  ordered_json out{{"name", network.name}};
  out.update(json_of(network.between));
  if (network.ranks_per_host > 1) {
    out["ranks_per_host"] = network.ranks_per_host;
    out["within"] = json_of(network.within);
    if (network.cores_per_host > 0) out["cores_per_host"] = network.cores_per_host;
  }
  return out;
}

ordered_json network_json(const DataNetwork& network) {
  ordered_json out{{"name", network.name}, {"ranks_per_host", network.ranks_per_host}};
  out["within"] = json_of(network.within);
  out["between"] = json_of(network.between);
  if (network.staging) out["staging"] = json_of(*network.staging);
  return out;
}

ordered_json device_json(const DeviceModel& device) {
  ordered_json rates = ordered_json::object();
  for (std::size_t i = 0; i < kPrecisionNames.size(); ++i)
    if (device.flops_per_us[i] > 0) rates[std::string(kPrecisionNames[i])] = device.flops_per_us[i];
  ordered_json out{{"name", device.name},
                   {"bytes_per_us", device.bytes_per_us},
                   {"flops_per_us", rates},
                   {"launch_ns", device.launch_ns}};
  if (device.memory_bytes > 0) out["memory_bytes"] = device.memory_bytes;
  return out;
}

struct Sums {
  std::int64_t agreement = 0, compile = 0, step = 0, data = 0, wait = 0;
};

/// Returns sums over calls of the slowest rank's times; for waits, sums over calls and ranks.
Sums sums_of(const Timing& timing) {
  Sums out;
  for (const CallTiming& call : timing.calls) {
    out.agreement = sum_of_times(out.agreement, call.agreement_ns);
    out.compile = sum_of_times(out.compile, call.compile_ns);
    out.step = sum_of_times(out.step, call.step_ns);
    out.data = sum_of_times(out.data, call.data_ns);
  }
  for (const std::int64_t wait : timing.ranks.wait_ns) out.wait = sum_of_times(out.wait, wait);
  return out;
}

/// The memory held by the steps of a run.
struct MostMemory {
  MemoryPeak peak;         // peak of the first call with the most
  std::size_t call = 0;    // number of that call
  std::size_t beyond = 0;  // calls that need more than the device has
};
/// Returns nullopt if no step's memory is known.
std::optional<MostMemory> most_memory(const Timing& timing) {
  std::optional<MostMemory> out;
  for (std::size_t i = 0; i < timing.calls.size(); ++i) {
    const auto& peak = timing.calls[i].memory;
    if (!peak) continue;
    if (!out) out = MostMemory{.peak = *peak, .call = i};
    if (peak->bytes > out->peak.bytes) out = MostMemory{*peak, i, out->beyond};
    if (peak->bytes > timing.device->memory_bytes) ++out->beyond;
  }
  return out;
}

ordered_json call_json(std::size_t index, const CallTiming& call, const Timing& timing) {
  ordered_json out{
      {"call", index},
      {"begin_ns", call.begin_ns},
      {"end_ns", call.end_ns},
      {"agreement_ns", call.agreement_ns},
      {"compile_ns", call.compile_ns},
      {"step_ns", call.step_ns},
      {"wait_ns", json_of(call.wait)},
      {"last_rank", call.last_rank < 0 ? ordered_json(nullptr) : ordered_json(call.last_rank)}};
  if (timing.data_network) out["data_ns"] = call.data_ns;
  if (call.memory) out["memory"] = {{"bytes", call.memory->bytes}, {"rank", call.memory->rank}};
  return out;
}

ordered_json totals_json(const Timing& timing, const Sums& sums) {
  ordered_json out{{"end_ns", timing.end_ns},
                   {"agreement_ns", sums.agreement},
                   {"compile_ns", sums.compile},
                   {"step_ns", sums.step},
                   {"wait_of_all_ranks_ns", sums.wait}};
  if (timing.data_network) out["data_ns"] = sums.data;
  if (const auto most = most_memory(timing)) {
    out["memory"] = {{"bytes", most->peak.bytes}, {"rank", most->peak.rank}, {"call", most->call}};
    if (timing.device->memory_bytes > 0) out["calls_beyond_memory"] = most->beyond;
  }
  return out;
}

/// Returns percentiles over the ranks' sums, and the lowest rank with the largest sum.
ordered_json rank_json(const std::vector<std::int64_t>& sums) {
  std::vector<std::int64_t> copy = sums;
  ordered_json out = json_of(percentiles(copy));
  out["rank"] = std::max_element(sums.begin(), sums.end()) - sums.begin();
  return out;
}

struct FrameTimes {
  std::size_t calls = 0;
  std::vector<std::int64_t> agreement, wait, compile, step, data;
};

std::map<std::string, FrameTimes> by_frame(const DryRunResult& result) {
  std::map<std::string, FrameTimes> out;
  for (std::size_t i = 0; i < result.calls.size(); ++i) {
    if (!result.calls[i].frame) continue;
    const CallTiming& call = result.timing->calls[i];
    FrameTimes& frame = out[*result.calls[i].frame];
    ++frame.calls;
    frame.agreement.push_back(call.agreement_ns);
    frame.wait.push_back(call.wait.max);
    frame.step.push_back(call.step_ns);
    frame.data.push_back(call.data_ns);
    if (call.compile_ns > 0) frame.compile.push_back(call.compile_ns);
  }
  return out;
}

/// Returns a field in the form of RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string most_waiting(const Timing& timing) {
  const std::vector<std::int64_t>& waits = timing.ranks.wait_ns;
  std::vector<std::int64_t> copy = waits;
  const Percentiles over = percentiles(copy);
  const auto most = std::max_element(waits.begin(), waits.end()) - waits.begin();
  return fmt::format("{} for the median rank, {} for rank {}, which waits longest",
                     duration_text(over.p50), duration_text(over.max), most);
}

std::string memory_summary(const MostMemory& most, const DeviceModel& device) {
  constexpr double kGigabyte = 1e9;
  const auto gigabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / kGigabyte; };
  std::string out = fmt::format("memory       {:.1f} GB at most, on rank {} in call {}",
                                gigabytes(most.peak.bytes), most.peak.rank, most.call);
  if (device.memory_bytes > 0)
    out += fmt::format(", of {:.1f} GB on a device ({}); calls that need more: {}",
                       gigabytes(device.memory_bytes), device.name, most.beyond);
  return out + "\n";
}

}  // namespace

std::string cost_json(const DryRunResult& result) {
  const Timing& timing = *result.timing;
  const Sums sums = sums_of(timing);
  ordered_json frames = ordered_json::object();
  for (auto& [name, times] : by_frame(result)) {
    FrameTimes of = times;
    ordered_json& frame = frames[name];
    frame = {{"calls", of.calls},
             {"agreement_ns", json_of(percentiles(of.agreement))},
             {"wait_ns", json_of(percentiles(of.wait))},
             {"compiles", of.compile.size()},
             {"compile_ns", json_of(percentiles(of.compile))},
             {"step_ns", json_of(percentiles(of.step))}};
    if (timing.data_network) frame["data_ns"] = json_of(percentiles(of.data));
  }
  std::string out = "{\"network\": " + json_text(network_json(timing.network));
  if (timing.data_network)
    out += ",\n  \"data_network\": " + json_text(network_json(*timing.data_network));
  if (timing.device) out += ",\n  \"device\": " + json_text(device_json(*timing.device));
  out += ",\n  \"totals\": " + json_text(totals_json(timing, sums)) + ",\n  \"ranks\": " +
         json_text({{"wait_ns", rank_json(timing.ranks.wait_ns)},
               {"agreement_ns", rank_json(timing.ranks.agreement_ns)},
               {"compile_ns", rank_json(timing.ranks.compile_ns)},
               {"step_ns", rank_json(timing.ranks.step_ns)}}) +
         ",\n  \"frames\": " + json_text(frames) + ",\n  \"calls\": [";
  for (std::size_t i = 0; i < timing.calls.size(); ++i)
    out += (i == 0 ? "\n   " : ",\n   ") + json_text(call_json(i, timing.calls[i], timing));
  return out + "]}";
}

std::string cost_summary(const DryRunResult& result) {
  const Timing& timing = *result.timing;
  const Sums sums = sums_of(timing);
  std::vector<std::int64_t> agreements;
  for (const CallTiming& call : timing.calls) agreements.push_back(call.agreement_ns);
  const Percentiles agreement = percentiles(agreements);
  std::string out = fmt::format(
      "cost         {} over {}: {} compiling, {} agreeing (a call {}, at most {}), {} in steps; "
      "waiting {}\n",
      duration_text(timing.end_ns), timing.network.name, duration_text(sums.compile),
      duration_text(sums.agreement), duration_text(agreement.p50), duration_text(agreement.max),
      duration_text(sums.step), most_waiting(timing));
  if (timing.data_network)
    out += fmt::format("data         {} of the steps in collectives over {}, {} ranks a host\n",
                       duration_text(sums.data), timing.data_network->name,
                       timing.data_network->ranks_per_host);
  if (const auto most = most_memory(timing)) out += memory_summary(*most, *timing.device);
  return out;
}

std::string calls_csv(const DryRunResult& result) {
  std::string out =
      "call,frame,outcome,entry,begin_ns,end_ns,agreement_ns,compile_ns,step_ns,wait_p50_ns,"
      "wait_p90_ns,wait_p99_ns,wait_max_ns,last_rank";
  const Timing& timing = *result.timing;
  const bool memory = most_memory(timing).has_value();
  out += fmt::format("{}{}\r\n", timing.data_network ? ",data_ns" : "",
                     memory ? ",memory_bytes,memory_rank" : "");
  for (std::size_t i = 0; i < result.calls.size(); ++i) {
    const CallResult& call = result.calls[i];
    const CallTiming& time = timing.calls[i];
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}", i,
                       csv_field(call.frame.value_or("")), outcome_name(call.outcome.kind),
                       call.outcome.entry < 0 ? "" : std::to_string(call.outcome.entry),
                       time.begin_ns, time.end_ns, time.agreement_ns, time.compile_ns, time.step_ns,
                       time.wait.p50, time.wait.p90, time.wait.p99, time.wait.max,
                       time.last_rank < 0 ? "" : std::to_string(time.last_rank));
    if (timing.data_network) out += fmt::format(",{}", time.data_ns);
    if (memory)
      out += time.memory ? fmt::format(",{},{}", time.memory->bytes, time.memory->rank) : ",,";
    out += "\r\n";
  }
  return out;
}

std::string duration_text(std::int64_t ns) {
  if (ns < 1000) return fmt::format("{} ns", ns);
  struct Unit {
    double ns;
    const char* name;
  };
  constexpr Unit kUnits[] = {{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}, {3600e9, "h"}};
  std::size_t unit = 0;
  const auto value = static_cast<double>(ns);
  while (unit + 1 < std::size(kUnits) && value >= kUnits[unit + 1].ns) ++unit;
  const double amount = value / kUnits[unit].ns;
  return fmt::format("{:.{}f} {}", amount,
                     amount < 10    ? 2
                     : amount < 100 ? 1
                                    : 0,
                     kUnits[unit].name);
}

}  // namespace lockstep::worker::simulator
