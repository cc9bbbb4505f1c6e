#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/report/time_trace.h>

namespace lockstep::worker::simulator {
namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_name(SpanKind kind) {
  constexpr std::string_view kNames[] = {"wait",    "vote", "exchange", "broadcast",
                                         "compile", "step", "data"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Nanoseconds as microseconds, exactly.
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string metadata(const char* what, std::int32_t track, const std::string& name) {
  return text(
      {{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}});
}

}  // namespace

std::string time_trace(const DryRunResult& result) {
  std::set<std::int32_t> tracks;
  for (const TimeSpan& span : result.timing->spans) tracks.insert(span.rank);
  std::string out = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  out += metadata(
      "process_name", 0,
      fmt::format("dry run of {} ranks over {}", result.world_size, result.timing->network.name));
  for (const std::int32_t rank : tracks)
    out += ",\n" + metadata("thread_name", rank, fmt::format("rank {}", rank));
  for (const TimeSpan& span : result.timing->spans) {
    const CallResult& call = result.calls[span.call];
    const std::string name =
        fmt::format("{} {} {}", kind_name(span.kind), call.frame.value_or("-"), span.call);
    out += fmt::format(
        ",\n{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": 1, \"tid\": {}, \"ts\": {}, "
        "\"dur\": {}}}",
        text(name), kind_name(span.kind), span.rank, microseconds(span.begin_ns),
        microseconds(span.end_ns - span.begin_ns));
  }
  return out + "\n]}\n";
}

}  // namespace lockstep::worker::simulator
