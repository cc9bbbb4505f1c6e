#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <lockstep/worker/simulator/answers/mark_advice.h>
#include <lockstep/worker/simulator/answers/suggestion.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

using Dim = std::tuple<std::string, std::string, std::size_t>;  // frame, source, dim

/// Dims that are a symbol of 2 or more in one entry, and a symbol that may be less in a later one.
std::set<Dim> dims_with_lowered_bounds(const Scenario& scenario, const DryRunResult& result) {
  std::set<Dim> bounded, out;
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    if (!result.calls[c].reported) continue;
    const std::string frame = frame_called(scenario, c);
    const Decision& decision = *result.calls[c].reported;
    for (const SourceDecision& source : decision.sources)
      for (std::size_t d = 0; source.spec.kind == Kind::Tensor && d < source.dims.size(); ++d) {
        if (!source.dims[d].is_symbol) continue;
        Dim dim{frame, source.spec.name, d};
        if (decision.symbols[source.dims[d].symbol].min.value_or(0) >= 2)
          bounded.insert(std::move(dim));
        else if (bounded.contains(dim))
          out.insert(std::move(dim));
      }
  }
  return out;
}

std::size_t compiles_of(const DryRunResult& result) { return totals(result).compiles; }

/// True if the job calls lockstep.torch.compile(), whose agreements are named "compile …".
bool is_torch(const std::vector<RankRecord>& ranks) {
  return std::ranges::any_of(ranks.front().agreements, [](const auto& agreement) {
    return agreement.second.name.starts_with("compile ");
  });
}

}  // namespace

std::vector<MarkedDim> dims_to_mark(const Scenario& scenario, const DryRunResult& result) {
  std::map<std::string, std::size_t> compiles;
  for (std::size_t c = 0; c < result.calls.size(); ++c)
    if (result.calls[c].reported) ++compiles[frame_called(scenario, c)];
  if (std::ranges::none_of(compiles, [](const auto& frame) { return frame.second > 1; })) return {};
  const Survey sizes = survey(scenario);
  std::set<Dim> dims = dims_with_lowered_bounds(scenario, result);
  // A dim that is always 2 or more had its bound lowered because of other dims.
  for (const SurveyedDim& dim : sizes.dims)
    if (dim.dim && dim.least >= 2) dims.erase({dim.frame, dim.source, *dim.dim});
  for (const Suggestion& made : suggest_marks(scenario, result, sizes))
    if (made.dim) dims.insert({made.frame, made.source, *made.dim});
  std::vector<MarkedDim> out;
  for (const SurveyedDim& dim : sizes.dims)
    if (dim.dim && dims.contains({dim.frame, dim.source, *dim.dim}))
      out.push_back({.frame = dim.frame,
                     .source = dim.source,
                     .dim = *dim.dim,
                     .mark = dim.least < 2 ? Mark::Unbacked : Mark::Dynamic,
                     .least = dim.least,
                     .greatest = dim.greatest,
                     .compiles = compiles[dim.frame]});
  return out;
}

Scenario with_marks(const Scenario& scenario, const std::vector<MarkedDim>& dims) {
  std::vector<Suggestion> all;
  for (const MarkedDim& dim : dims)
    all.push_back({.frame = dim.frame, .source = dim.source, .dim = dim.dim, .mark = dim.mark});
  return with_marks(scenario, all);
}

MarkAdvice mark_advice(const Scenario& scenario, const DryRunResult& result,
                       const std::vector<RankRecord>& ranks) {
  MarkAdvice out{.dims = dims_to_mark(scenario, result),
                 .torch = is_torch(ranks),
                 .compiles = compiles_of(result),
                 .compiles_if_marked = {}};
  constexpr std::size_t kCalls = 100'000;  // two further runs of a larger job take long
  if (out.dims.empty() || scenario.count() > kCalls) return out;
  Scenario plain = scenario;
  plain.cost.reset();
  const DryRunOptions options{.counterfactual = false};
  if (compiles_of(dry_run(plain, options)) == out.compiles)
    out.compiles_if_marked = compiles_of(dry_run(with_marks(plain, out.dims), options));
  return out;
}

void count_conditions(const Scenario& scenario, const DryRunResult& result, DrawnFrom& out) {
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    if (!result.calls[c].reported) continue;
    const bool known =
        scenario.traces != nullptr &&
        scenario.traces->find(frame_called(scenario, c), *result.calls[c].reported) != nullptr;
    ++(known ? out.conditions_known : out.conditions_not_known);
  }
}

}  // namespace lockstep::worker::simulator
