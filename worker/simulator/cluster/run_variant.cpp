#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/json_text.h>
#include <lockstep/worker/simulator/cluster/run_variant.h>

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

std::string run_variants_json(const std::vector<RunVariant>& variants) {
  std::string out = "[";
  for (const RunVariant& variant : variants) {
    const ordered_json json{
        {"way", variant.name},
        {"compiles_per_rank_max", variant.compiles_per_rank_max},
        {"restarts_per_rank_max", variant.restarts_per_rank_max},
        {"calls",
         {{"compiled", variant.compiles},
          {"reused", variant.reuses},
          {"fallback", variant.fallbacks},
          {"error", variant.errors}}},
        {"distinct_graphs_max", variant.distinct_graphs_max},
        {"first_divergent_call",
         variant.first_divergent_call ? ordered_json(*variant.first_divergent_call) : nullptr},
        {"cause", variant.cause ? cause_json(*variant.cause) : ordered_json(nullptr)}};
    out += out.size() == 1 ? "\n  " : ",\n  ";
    out += json_text(json);
  }
  return out + "]";
}

std::string run_variants_table(const std::vector<RunVariant>& variants) {
  std::string out = fmt::format("\n{:<23} {:>13} {:>13} {:>8} {:>6} {:>9} {:>6} {:>6} {:>9}\n",
                                "way", "compiles/rank", "restarts/rank", "compiled", "reused",
                                "fell back", "errors", "graphs", "part ways");
  std::string causes;
  for (const RunVariant& variant : variants) {
    out += fmt::format(
        "{:<23} {:>13} {:>13} {:>8} {:>6} {:>9} {:>6} {:>6} {:>9}\n", variant.name,
        variant.compiles_per_rank_max, variant.restarts_per_rank_max, variant.compiles,
        variant.reuses, variant.fallbacks, variant.errors, variant.distinct_graphs_max,
        variant.first_divergent_call ? fmt::format("call {}", *variant.first_divergent_call)
                                     : std::string("never"));
    if (variant.cause)
      causes += fmt::format("{}: in call {} of {} {}.\n", variant.name, variant.cause->call,
                            variant.cause->frame, variant.cause->text);
  }
  return out + causes;
}

}  // namespace lockstep::worker::simulator
