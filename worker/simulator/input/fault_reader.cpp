// Reads the faults section of a scenario, and makes the draws that depend on its seed.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/worker/simulator/draw/draw.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

using Kind = Fault::Kind;

constexpr std::size_t kMaxFaults = 64;
constexpr std::int64_t kMaxDrawn = 1024;
constexpr double kMaxSeconds = 1e6;
constexpr std::uint64_t kRanks = 1, kTime = 2;  // places of the draws

/// Returns the longest step plus the longest compile of any frame, in seconds.
double longest_call(const FaultPlan& plan, const std::optional<CostModel>& cost) {
  constexpr std::int64_t kManySources = 1 << 20;
  std::int64_t step = 0, compile = 0;
  const auto join = [&](const FrameCost& frame) {
    step = std::max(step, cost->own_step_ns(frame.step, 0));
    const double sources = static_cast<double>(frame.compile.per_source_ns) +
                           static_cast<double>(frame.compile.per_symbol_ns);
    const double all = static_cast<double>(frame.compile.constant_ns) + sources * kManySources;
    compile =
        std::max(compile, static_cast<std::int64_t>(std::min(all, static_cast<double>(kLongest))));
  };
  if (cost) join(cost->usual);
  if (cost)
    for (const auto& [name, frame] : cost->frames) join(frame);
  const Duration both = plan.step.value_or(cost ? Duration(step) : kUsualStep) +
                        plan.compile.value_or(cost ? Duration(compile) : kUsualCompile);
  return std::chrono::duration<double>(both).count();
}

Duration nanoseconds(double seconds) { return Duration(std::llround(seconds * 1e9)); }

}  // namespace

bool ScenarioReader::read_faults(const Json& json, const JsonPath& path, const Scenario& scenario,
                                 FaultPlan& out) {
  const std::size_t calls = scenario.count();
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"seed", "deadline_s", "step_s", "compile_s", "latency_s", "list"}))
    return false;
  std::int64_t seed = 0;
  if (const Json* given = json.find("seed"))
    if (!integer(*given, path.at("seed"), 0, INT64_MAX, seed)) return false;
  if (scenario.cost) {
    out.deadline = Duration(scenario.cost->deadline_ns);
    const NetworkModel& network = scenario.cost->network;
    out.latency = Duration(std::max<std::int64_t>(network.between.latency_ns, 1));
  }
  if (!read_seconds(json, path, "deadline_s", 1e-3, out.deadline) ||
      !read_seconds(json, path, "latency_s", 1e-9, out.latency) ||
      (json.find("step_s") != nullptr &&
       !read_seconds(json, path, "step_s", 0, out.step.emplace())) ||
      (json.find("compile_s") != nullptr &&
       !read_seconds(json, path, "compile_s", 0, out.compile.emplace())))
    return false;
  const Json* list = required(json, path, "list");
  const JsonPath at = path.at("list");
  if (list == nullptr || array(*list, at) == nullptr) return false;
  const auto& faults = *list->as<Json::Array>();
  if (faults.size() > kMaxFaults)
    return fail(at,
                fmt::format("{} faults, where at most {} are possible", faults.size(), kMaxFaults));
  RankSet taken, halted;
  double seconds = 0;  // virtual time that the job may take
  const auto long_of = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const std::uint64_t own = mixed(static_cast<std::uint64_t>(seed), i);
    if (!read_fault(faults[i], at.at(i), calls, own, taken, out.list.emplace_back())) return false;
    const Fault& fault = out.list.back();
    taken.insert(fault.ranks);
    seconds += long_of(fault.delay) * static_cast<double>(calls + 1);
    if (fault.lasts) seconds += long_of(*fault.lasts);
    if (fault.at) seconds += long_of(*fault.at);
    if (!row_of(fault.kind).is(FaultRow::Halts)) continue;
    if (halted.minus(fault.ranks) != halted)
      return fail(at.at(i), "an earlier fault stops or crashes a rank of this one");
    halted.insert(fault.ranks);
  }
  seconds += (longest_call(out, scenario.cost) + long_of(2 * out.deadline)) *
             static_cast<double>(calls + 1);
  constexpr double kMostSeconds = 4e9;  // over a century; a virtual clock ends at 9.2e9
  if (seconds > kMostSeconds)
    return fail(path,
                fmt::format("{} calls with these times may take {:.2g} s of virtual time, where "
                            "at most {:.2g} are possible",
                            calls, seconds, kMostSeconds));
  return true;
}

bool ScenarioReader::read_fault(const Json& json, const JsonPath& path, std::size_t calls,
                                std::uint64_t seed, const RankSet& taken, Fault& out) {
  if (object(json, path) == nullptr) return false;
  const Json* name = required(json, path, "fault");
  std::size_t kind = 0;
  if (name == nullptr || !choice(*name, path.at("fault"), kFaultNames, kind)) return false;
  out.kind = static_cast<Kind>(kind);
  return known_fault_keys(json, path, out.kind) && read_victims(json, path, seed, taken, out) &&
         read_moment(json, path, calls, seed, out) && read_extent(json, path, out);
}

bool ScenarioReader::known_fault_keys(const Json& json, const JsonPath& path, Kind kind) {
  const FaultRow row = row_of(kind);
  std::vector<std::string_view> keys{"fault", "ranks", "count", "call"};
  if (row.is(FaultRow::AtATime)) keys.emplace_back("at_s");
  if (row.is(FaultRow::Lasts)) keys.emplace_back("for_s");
  if (!row.delay.empty()) keys.emplace_back("delay_s");
  if (row.is(FaultRow::Rejects)) keys.emplace_back("rejected");
  return known_keys(json, path, keys);
}

// Reads the fault's ranks: a set, or a number of ranks to draw among those that no earlier fault
// has.
bool ScenarioReader::read_victims(const Json& json, const JsonPath& path, std::uint64_t seed,
                                  const RankSet& taken, Fault& out) {
  const Json *who = json.find("ranks"), *count = json.find("count");
  if ((who != nullptr) == (count != nullptr))
    return fail(path, "one of ranks, count says on whom the fault falls");
  if (who != nullptr) return ranks(*who, path.at("ranks"), out.ranks);
  std::int64_t number = 0;
  if (!integer(*count, path.at("count"), 1, kMaxDrawn, number)) return false;
  const std::int64_t left = world_size_ - taken.size();
  if (number > left)
    return fail(path.at("count"),
                fmt::format("{} ranks to draw, where the faults before leave {} of the world",
                            number, left));
  const std::uint64_t place = mixed(seed, kRanks);
  for (std::uint64_t i = 0; out.ranks.size() < number; ++i) {
    const Rank drawn{
        static_cast<std::int32_t>(mixed(place, i) % static_cast<std::uint64_t>(world_size_))};
    if (!taken.contains(drawn)) out.ranks.insert(drawn);
  }
  return true;
}

// Reads a call or a time: a number, or [least, greatest] to draw it from.
bool ScenarioReader::read_moment(const Json& json, const JsonPath& path, std::size_t calls,
                                 std::uint64_t seed, Fault& out) {
  const Json *call = json.find("call"), *at = json.find("at_s");
  if (call != nullptr && at != nullptr)
    return fail(path, "one of call, at_s says when the fault strikes");
  if (call == nullptr && at == nullptr) {
    const FaultRow row = row_of(out.kind);
    if (row.is(FaultRow::NeedsNoTime)) return true;
    return fail(path, row.is(FaultRow::AtATime) ? "one of call, at_s says when the fault strikes"
                                                : "the key call says when the fault strikes");
  }
  const Json& json_of = call != nullptr ? *call : *at;
  const JsonPath here = path.at(call != nullptr ? "call" : "at_s");
  std::vector<Json> ends{json_of, json_of};
  if (const auto* list = json_of.as<Json::Array>()) {
    if (list->size() != 2) return fail(here, "expected [least, greatest]");
    ends = *list;
  }
  std::array<std::int64_t, 2> range{};
  for (std::size_t i = 0; i < 2; ++i) {
    double seconds = 0;
    if (call != nullptr ? !integer(ends[i], here, 0, INT64_MAX, range[i])
                        : !real(ends[i], here, 0, kMaxSeconds, seconds))
      return false;
    if (call == nullptr) range[i] = nanoseconds(seconds).count();
  }
  if (range[0] > range[1]) return fail(here, "the least is above the greatest");
  if (call != nullptr && range[1] >= static_cast<std::int64_t>(calls))
    return fail(here, fmt::format("the scenario makes {} calls", calls));
  const auto choices = static_cast<std::uint64_t>(range[1] - range[0]) + 1;
  const auto drawn = range[0] + static_cast<std::int64_t>(mixed(seed, kTime) % choices);
  if (call != nullptr)
    out.call = static_cast<std::size_t>(drawn);
  else
    out.at = Instant(drawn);
  return true;
}

// Reads delay, duration and the key `rejected`.
bool ScenarioReader::read_extent(const Json& json, const JsonPath& path, Fault& out) {
  if (!row_of(out.kind).delay.empty()) {
    if (required(json, path, "delay_s") == nullptr ||
        !read_seconds(json, path, "delay_s", 1e-9, out.delay))
      return false;
  }
  if (json.find("for_s") != nullptr &&
      !read_seconds(json, path, "for_s", 1e-9, out.lasts.emplace()))
    return false;
  const Json* rejected = json.find("rejected");
  return rejected == nullptr || boolean(*rejected, path.at("rejected"), out.rejected);
}

// Leaves `out` unchanged if the key is missing.
bool ScenarioReader::read_seconds(const Json& json, const JsonPath& path, std::string_view key,
                                  double least, Duration& out) {
  const Json* given = json.find(key);
  if (given == nullptr) return true;
  double seconds = 0;
  if (!real(*given, path.at(key), least, kMaxSeconds, seconds)) return false;
  out = nanoseconds(seconds);
  return true;
}

}  // namespace lockstep::worker::simulator
