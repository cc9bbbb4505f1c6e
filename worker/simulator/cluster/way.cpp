#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/json_text.h>
#include <lockstep/worker/simulator/cluster/way.h>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;

ordered_json cause_json(const Cause& cause) {
  ordered_json groups = ordered_json::array();
  for (const Cause::Group& group : cause.groups)
    groups.push_back({{"ranks", group.ranks.named().text()},
                      {"count", group.ranks.count()},
                      {"least", group.least},
                      {"greatest", group.greatest}});
  return {{"call", cause.call},
          {"frame", cause.frame},
          {"source", cause.source.empty() ? ordered_json(nullptr) : ordered_json(cause.source)},
          {"message", cause.text},
          {"groups", std::move(groups)}};
}

}  // namespace

std::string ways_json(const std::vector<Way>& ways) {
  std::string out = "[";
  for (const Way& way : ways) {
    const ordered_json json{
        {"way", way.name},
        {"compiles_per_rank_max", way.compiles_per_rank_max},
        {"restarts_per_rank_max", way.restarts_per_rank_max},
        {"calls",
         {{"compiled", way.compiles},
          {"reused", way.reuses},
          {"fallback", way.fallbacks},
          {"error", way.errors}}},
        {"distinct_graphs_max", way.distinct_graphs_max},
        {"first_divergent_call",
         way.first_divergent_call ? ordered_json(*way.first_divergent_call) : nullptr},
        {"cause", way.cause ? cause_json(*way.cause) : ordered_json(nullptr)}};
    out += out.size() == 1 ? "\n  " : ",\n  ";
    out += json_text(json);
  }
  return out + "]";
}

std::string ways_table(const std::vector<Way>& ways) {
  std::string out = fmt::format("\n{:<23} {:>13} {:>13} {:>8} {:>6} {:>9} {:>6} {:>6} {:>9}\n",
                                "way", "compiles/rank", "restarts/rank", "compiled", "reused",
                                "fell back", "errors", "graphs", "part ways");
  std::string causes;
  for (const Way& way : ways) {
    out += fmt::format("{:<23} {:>13} {:>13} {:>8} {:>6} {:>9} {:>6} {:>6} {:>9}\n", way.name,
                       way.compiles_per_rank_max, way.restarts_per_rank_max, way.compiles,
                       way.reuses, way.fallbacks, way.errors, way.distinct_graphs_max,
                       way.first_divergent_call ? fmt::format("call {}", *way.first_divergent_call)
                                                : std::string("never"));
    if (way.cause)
      causes += fmt::format("{}: in call {} of {} {}.\n", way.name, way.cause->call,
                            way.cause->frame, way.cause->text);
  }
  return out + causes;
}

}  // namespace lockstep::worker::simulator
