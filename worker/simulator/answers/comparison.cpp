#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/pytorch_model.h>
#include <lockstep/worker/simulator/answers/suggestion.h>
#include <lockstep/worker/simulator/cluster/timed_run.h>

namespace lockstep::worker::simulator {
namespace {

RunVariant variant_alone(const Scenario& scenario, const Uncoordinated& alone) {
  RunVariant out{.name = "uncoordinated",
                 .compiles_per_rank_max = alone.compiles_per_rank_max,
                 .compiles = alone.compiles,
                 .reuses = alone.reuses,
                 .fallbacks = alone.fallbacks,
                 .errors = alone.errors,
                 .distinct_graphs_max = alone.distinct_graphs_max,
                 .first_divergent_call = alone.first_divergent_call,
                 .cause = {}};
  if (out.first_divergent_call)
    out.cause = uncoordinated_cause(scenario, *out.first_divergent_call);
  return out;
}

/// Totals of a coordinated run. In each call all ranks run the same program, or none. Under
/// shared_sizes each different decision is a program of its own.
RunVariant variant_together(std::string name, const DryRunResult& result) {
  const Totals sum = totals(result);
  RunVariant out;
  out.name = std::move(name);
  out.compiles_per_rank_max = static_cast<int>(sum.compiles);
  out.compiles = sum.compiles;
  out.reuses = sum.reuses;
  out.fallbacks = sum.fallbacks;
  out.errors = sum.errors;
  out.distinct_graphs_max = sum.errors < result.calls.size() ? 1 : 0;
  for (const CallResult& call : result.calls)
    out.distinct_graphs_max = std::max(out.distinct_graphs_max, static_cast<int>(call.own.size()));
  return out;
}

}  // namespace

std::vector<RunVariant> compare_variants(const Scenario& scenario, const DryRunResult& result,
                                         const Profiles& learnt, const OnProgress& progress) {
  Scenario plain = scenario;
  plain.cost.reset();  // only the run itself has times and faults
  plain.faults.reset();
  DryRunOptions options;
  options.counterfactual = false;
  options.progress = progress;
  std::vector<RunVariant> out;
  if (result.uncoordinated) out.push_back(variant_alone(plain, *result.uncoordinated));
  out.push_back(pytorch_model(plain, progress));
  out.push_back(variant_together("lockstep", result));
  options.from = &learnt;
  out.push_back(variant_together("lockstep_with_profile", dry_run(plain, options)));
  options.from = nullptr;
  const auto suggestions = suggest_marks(plain, result, survey(plain));
  const bool marks = std::any_of(suggestions.begin(), suggestions.end(),
                                 [](const Suggestion& s) { return s.dim.has_value(); });
  if (marks)
    out.push_back(
        variant_together("lockstep_marked", dry_run(with_marks(plain, suggestions), options)));
  return out;
}

std::optional<Status> too_large(const Scenario& scenario, const DryRunOptions& options) {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 30;
  if (const std::uint64_t timed = scenario.faults ? timed_run_bytes(scenario) : 0; timed > kLimit)
    return bad_input(
        fmt::format("simulating {} ranks with faults, each by itself, would take about {} "
                    "GiB of memory, more than {}; use fewer ranks",
                    scenario.world_size, (timed >> 30) + 1, kLimit >> 30));
  const std::uint64_t bytes = (options.counterfactual ? uncoordinated_bytes(scenario) : 0) +
                              (options.compare ? pytorch_model_bytes(scenario) : 0);
  if (bytes <= kLimit) return std::nullopt;
  return bad_input(
      fmt::format("running each of {} ranks alone through {} calls would take about {} "
                  "GiB of memory, more than {}; leave that out with "
                  "--no-counterfactual, or use fewer ranks or calls",
                  scenario.world_size, scenario.count(), (bytes >> 30) + 1, kLimit >> 30));
}

}  // namespace lockstep::worker::simulator
