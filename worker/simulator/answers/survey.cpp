#include <algorithm>
#include <tuple>

#include <lockstep/worker/simulator/answers/survey.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

/// Values of one dim so far.
struct Tally {
  SurveyedDim out;
  std::vector<std::int64_t> values;                // distinct, ascending
  std::int64_t call_least = 0, call_greatest = 0;  // of the current call
  std::size_t last_call = SIZE_MAX;

  void add(std::int64_t value) {
    const auto at = std::lower_bound(values.begin(), values.end(), value);
    if ((at == values.end() || *at != value) && values.size() < Survey::kDistinct)
      values.insert(at, value);
  }
};

/// Tallies of one frame's values under one list of sources, in the list's order.
using Tallies = std::vector<Tally*>;

std::size_t drawn_values(const GeneratedCall& kind) {
  return kind.pool ? kind.pool->least.values.size() : kind.draws.size();
}

class Surveyor {
 public:
  explicit Surveyor(const Scenario& scenario) : scenario_(scenario), at_most_(ranks_per_call()) {}

  Survey run() {
    for (call_ = 0; call_ < scenario_.count(); ++call_) {
      visit_inputs(
          scenario_, call_,
          [&](const std::string& frame, const RankSet&, const Observation& seen) {
            add(frame, seen);
          },
          at_most_);
      if (at_most_ < INT32_MAX && ranks_draw_differently(scenario_, call_)) add_reach();
      for (Tally* tally : met_) end_call(*tally);
      met_.clear();
    }
    Survey out;
    out.whole = at_most_ == INT32_MAX;
    for (auto& [key, tally] : tallies_) {
      tally.out.distinct = tally.values.size();
      out.dims.push_back(std::move(tally.out));
    }
    return out;
  }

 private:
  /// Number of ranks to visit if ranks draw for themselves; all if the budget allows it.
  [[nodiscard]] std::int32_t ranks_per_call() const {
    constexpr std::uint64_t kValues = 20'000'000;
    std::uint64_t values = 0;
    for (std::size_t c = scenario_.explicit_count(); c < scenario_.count(); ++c)
      if (ranks_draw_differently(scenario_, c))
        values += drawn_values(scenario_.generator.kind(c - scenario_.explicit_count()));
    const auto world = static_cast<std::uint64_t>(scenario_.world_size);
    if (values == 0 || values * world <= kValues) return INT32_MAX;
    return static_cast<std::int32_t>(std::max<std::uint64_t>(16, kValues / 4 / values));
  }

  void add(const std::string& frame, const Observation& seen) {
    const Tallies& tallies = tallies_of(frame, seen);
    for (std::size_t i = 0; i < tallies.size(); ++i)
      if (tallies[i] != nullptr) add(*tallies[i], seen.values[i]);
  }

  void add(Tally& tally, std::int64_t value) {
    tally.add(value);
    if (tally.last_call != call_) {
      tally.last_call = call_;
      tally.call_least = tally.call_greatest = value;
      met_.push_back(&tally);
    }
    tally.call_least = std::min(tally.call_least, value);
    tally.call_greatest = std::max(tally.call_greatest, value);
  }

  /// Adds the range that any rank can draw, since some ranks were not visited.
  void add_reach() {
    const std::size_t number = call_ - scenario_.explicit_count();
    const RankInputs inputs = scenario_.generator.inputs(number, scenario_.world_size);
    const Tallies& tallies = tallies_of(scenario_.generator.kind(number).frame, inputs.like());
    for (std::size_t i = 0; i < tallies.size(); ++i) {
      if (tallies[i] == nullptr) continue;
      tallies[i]->call_least = std::min(tallies[i]->call_least, inputs.least().values[i]);
      tallies[i]->call_greatest = std::max(tallies[i]->call_greatest, inputs.greatest().values[i]);
    }
  }

  static void end_call(Tally& tally) {
    SurveyedDim& out = tally.out;
    out.least = out.calls == 0 ? tally.call_least : std::min(out.least, tally.call_least);
    out.greatest =
        out.calls == 0 ? tally.call_greatest : std::max(out.greatest, tally.call_greatest);
    ++out.calls;
    out.calls_apart += tally.call_least < tally.call_greatest ? 1 : 0;
  }

  const Tallies& tallies_of(const std::string& frame, const Observation& seen) {
    const auto [at, fresh] = by_list_.try_emplace({frame, seen.list->digest()});
    if (!fresh) return at->second;
    for (const SourceSpec& spec : seen.list->sources()) {
      if (spec.kind == Kind::Bool) at->second.push_back(nullptr);
      if (spec.kind == Kind::Int) at->second.push_back(&tally(frame, spec.name, std::nullopt));
      for (std::size_t d = 0; spec.kind == Kind::Tensor && d < spec.ndim; ++d)
        at->second.push_back(&tally(frame, spec.name, d));
    }
    return at->second;
  }

  Tally& tally(const std::string& frame, const std::string& source,
               std::optional<std::size_t> dim) {
    Tally& out = tallies_[{frame, source, dim}];
    out.out.frame = frame;
    out.out.source = source;
    out.out.dim = dim;
    return out;
  }

  const Scenario& scenario_;
  std::int32_t at_most_;
  std::size_t call_ = 0;
  std::map<std::tuple<std::string, std::string, std::optional<std::size_t>>, Tally> tallies_;
  std::map<std::pair<std::string, shapes::Fingerprint>, Tallies> by_list_;
  std::vector<Tally*> met_;  // tallies with a value in the current call
};

}  // namespace

std::string SurveyedDim::name() const { return dim ? size_text(source, *dim) : source; }

Survey survey(const Scenario& scenario) { return Surveyor(scenario).run(); }

}  // namespace lockstep::worker::simulator
