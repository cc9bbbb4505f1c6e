#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/event_line.h>
#include <lockstep/coordinator/documents/json_text.h>

namespace lockstep::coordinator {
namespace {

std::string utc(WallTime at) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(at)),
                     since.count() % 1'000'000'000);
}

std::int64_t microseconds(Duration span) {
  return std::chrono::duration_cast<std::chrono::microseconds>(span).count();
}

}  // namespace

std::string line_of(const EventLine& event) {
  nlohmann::ordered_json out{{"ts", utc(event.at)},  {"mono_ns", event.mono.count()},
                             {"level", event.level}, {"job", event.job},
                             {"run", event.run},     {"event", event.event}};
  const auto add = [&out](const char* name, const std::string& text) {
    if (!text.empty()) out[name] = text;
  };
  add("ranks", event.ranks.text());
  if (event.ranks.size() == 1) out["rank"] = event.ranks.lowest().value;
  add("host", event.host);
  if (event.pid != 0) out["pid"] = event.pid;
  add("frame", event.frame);
  add("group", event.group);
  if (event.epoch) out["epoch"] = *event.epoch;
  if (event.call) out["call"] = *event.call;
  if (event.attempt != 0) out["attempt"] = event.attempt;
  add("phase", event.phase);
  add("round", event.round);
  add("graph", event.graph);
  add("code", event.code);
  if (event.took) out["dur_us"] = microseconds(*event.took);
  if (event.waited) out["wait_us"] = microseconds(*event.waited);
  add("message", event.message);
  return json_text(out) + "\n";
}

}  // namespace lockstep::coordinator
