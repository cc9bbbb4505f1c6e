
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/sweep.h>
#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/draw/json_document.h>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostValues = 64;

std::optional<std::vector<std::uint64_t>> values_of(std::string_view text, SweepRange::Of of) {
  std::vector<std::uint64_t> out;
  if (const auto dots = text.find(".."); dots != text.npos) {
    const auto first = number_in<std::uint64_t>(text.substr(0, dots)),
               last = number_in<std::uint64_t>(text.substr(dots + 2));
    if (!first || !last || *first > *last) return std::nullopt;
    if (of == SweepRange::Of::Ranks && *first == 0) return std::nullopt;
    for (std::uint64_t value = *first; value < *last && out.size() < kMostValues;
         value = of == SweepRange::Of::Ranks ? value * 2 : value + 1)
      out.push_back(value);
    out.push_back(*last);
    return out;
  }
  for (;;) {
    const std::size_t comma = text.find(',');
    const auto value = number_in<std::uint64_t>(text.substr(0, comma));
    if (!value) return std::nullopt;
    out.push_back(*value);
    if (comma == text.npos) return out;
    text.remove_prefix(comma + 1);
  }
}

SweepRow row_of(std::uint64_t value, const DryRunResult& result) {
  SweepRow row{.value = value,
               .totals = totals(result),
               .bytes_per_rank_max = result.bytes_per_rank_max,
               .rounds = result.rounds,
               .uncoordinated = result.uncoordinated,
               .agreement_ns = {}};
  if (!result.timing) return row;
  row.agreement_ns = 0;
  for (const CallTiming& call : result.timing->calls)
    row.agreement_ns = sum_of_times(*row.agreement_ns, call.agreement_ns);
  return row;
}

ordered_json json_of(const SweepRow& row) {
  ordered_json out{{"value", row.value},          {"compiles", row.totals.compiles},
                   {"reuses", row.totals.reuses}, {"fallbacks", row.totals.fallbacks},
                   {"errors", row.totals.errors}, {"bytes_per_rank_max", row.bytes_per_rank_max},
                   {"rounds", row.rounds},        {"uncoordinated", nullptr}};
  if (row.uncoordinated)
    out["uncoordinated"] = {
        {"compiles_per_rank_max", row.uncoordinated->compiles_per_rank_max},
        {"first_divergent_call", row.uncoordinated->first_divergent_call
                                     ? ordered_json(*row.uncoordinated->first_divergent_call)
                                     : ordered_json(nullptr)},
        {"distinct_graphs_max", row.uncoordinated->distinct_graphs_max}};
  if (row.agreement_ns) out["agreement_ns"] = *row.agreement_ns;
  return out;
}

ScenarioOptions at_value(ScenarioOptions read, const SweepRange& range, std::uint64_t value) {
  if (range.of == SweepRange::Of::Ranks)
    read.world_size = static_cast<int>(value);
  else
    read.seed = value;
  return read;
}

}  // namespace

Result<SweepRange> parse_sweep(std::string_view text) {
  SweepRange out;
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (name == "seed") out.of = SweepRange::Of::Seed;
  std::optional<std::vector<std::uint64_t>> values;
  if (equals != text.npos && (name == "seed" || name == "ranks"))
    values = values_of(text.substr(equals + 1), out.of);
  if (!values)
    return bad_input(
        fmt::format("--sweep {} cannot be read; write ranks=8..131072, ranks=8,64,512 or "
                    "seed=1..5.",
                    in_quotes(std::string(text))));
  if (values->size() > kMostValues)
    return bad_input(fmt::format("--sweep takes at most {} values.", kMostValues));
  for (const std::uint64_t value : *values)
    if (out.of == SweepRange::Of::Ranks && (value < 1 || value > kMaxWorldSize))
      return bad_input(
          fmt::format("--sweep: a world has 1 to {} ranks, not {}.", kMaxWorldSize, value));
  out.values = *std::move(values);
  return out;
}

/// Removes the faults, which no row shows.
static Result<Scenario> without_faults(Result<Scenario> scenario) {
  if (scenario) scenario->faults.reset();
  return scenario;
}

Result<Sweep> run_sweep(const std::string& path, const ScenarioOptions& read,
                        const SweepRange& range, const DryRunOptions& options,
                        const RowMade& made) {
  Sweep out;
  out.of = range.of;
  DryRunOptions each = options;
  each.compare = false;
  for (const std::uint64_t value : range.values) {
    const auto scenario = without_faults(load_scenario(path, at_value(read, range, value)));
    if (!scenario) return scenario.error();
    if (auto refused = too_large(*scenario, each)) return *refused;
  }
  for (std::size_t i = 0; i < range.values.size(); ++i) {
    if (options.progress) options.progress("values of the sweep", i, range.values.size());
    const auto scenario =
        without_faults(load_scenario(path, at_value(read, range, range.values[i])));
    if (!scenario) return scenario.error();
    out.calls = scenario->count();
    out.rows.push_back(row_of(range.values[i], dry_run(*scenario, each)));
    if (auto wrong = scenario->error()) return *std::move(wrong);
    if (made) made(out);
  }
  return out;
}

std::string_view sweep_name(SweepRange::Of of) {
  return of == SweepRange::Of::Ranks ? "ranks" : "seed";
}

std::string sweep_rows_json(const Sweep& sweep) {
  std::string out = "[";
  for (const SweepRow& row : sweep.rows)
    out += (out.size() == 1 ? "\n  " : ",\n  ") + json_of(row).dump();
  return out + "]";
}

std::string sweep_json(const Sweep& sweep) {
  return fmt::format(
      "{{\"format\": \"lockstep.sweep/1\", \"parameter\": \"{}\", \"calls\": {},\n \"rows\": "
      "{}}}\n",
      sweep_name(sweep.of), sweep.calls, sweep_rows_json(sweep));
}

std::string sweep_head(const Sweep& sweep) {
  return fmt::format(
      "{} calls\n\n{:>20} {:>8} {:>8} {:>9} {:>7} {:>12} {:>7} {:>14} {:>9} {:>10}\n", sweep.calls,
      sweep_name(sweep.of), "compiles", "reuses", "fallbacks", "errors", "bytes/rank", "rounds",
      "compiles alone", "part ways", "agreement");
}

std::string sweep_last_row(const Sweep& sweep) {
  const SweepRow& row = sweep.rows.back();
  const auto& alone = row.uncoordinated;
  return fmt::format("{:>20} {:>8} {:>8} {:>9} {:>7} {:>12} {:>7} {:>14} {:>9} {:>10}\n", row.value,
                     row.totals.compiles, row.totals.reuses, row.totals.fallbacks,
                     row.totals.errors, row.bytes_per_rank_max, row.rounds,
                     alone ? std::to_string(alone->compiles_per_rank_max) : std::string("-"),
                     !alone ? std::string("-")
                     : alone->first_divergent_call
                         ? fmt::format("call {}", *alone->first_divergent_call)
                         : std::string("never"),
                     row.agreement_ns ? duration_text(*row.agreement_ns) : std::string("-"));
}

}  // namespace lockstep::worker::simulator
