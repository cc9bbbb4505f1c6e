#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/simulator/answers/recompile.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

/// An entry. Under shared_sizes its decision may differ between ranks.
struct Known {
  int entry = 0;
  std::vector<OwnDecision> own;
  bool superseded = false;
};

RankSet in_both(const RankSet& a, const RankSet& b) { return a.minus(a.minus(b)); }

Known known_entry(const CallResult& call, int world_size) {
  Known out{.entry = call.outcome.entry, .own = call.own};
  if (out.own.empty()) out.own.push_back({RankSet::all(world_size), *call.reported});
  return out;
}

/// True if `newer` supersedes `older` on every rank.
bool supersedes(const Known& newer, const Known& older) {
  for (const OwnDecision& a : newer.own)
    for (const OwnDecision& b : older.own)
      if (!in_both(a.ranks, b.ranks).empty() && !worker::supersedes(a.decision, b.decision))
        return false;
  return true;
}

bool same_sources(const Decision& decision, const SourceList& list) {
  return std::equal(decision.sources.begin(), decision.sources.end(), list.sources().begin(),
                    list.sources().end(), [](const SourceDecision& source, const SourceSpec& spec) {
                      return source.spec == spec;
                    });
}

/// Requirement of one entry on one value, with the ranks that do not meet it.
struct Demand {
  std::string source;
  bool is_symbol = false, unbacked = false, is_bool = false;
  std::optional<std::int64_t> least;  // least value of a symbol
  std::int64_t value = 0;             // value of a constant
  Obstacle out_of_bounds;             // ranks whose value does not fit
  std::map<Mark, Obstacle> unmarked;  // ranks with a mark that the entry does not honour

  [[nodiscard]] bool met_by(std::int64_t v) const {
    return is_symbol ? !least || v >= *least : v == value;
  }
  [[nodiscard]] bool honours(Mark mark) const {
    return !((mark == Mark::Dynamic && !is_symbol) || (mark == Mark::Unbacked && !unbacked) ||
             (mark == Mark::Static && is_symbol));
  }
  [[nodiscard]] std::string asked() const {
    if (is_symbol) return fmt::format("at least {}", least.value_or(0));
    return is_bool ? (value != 0 ? "true" : "false") : std::to_string(value);
  }
  [[nodiscard]] std::string_view use() const {
    return unbacked ? "an unbacked size" : is_symbol ? "a dynamic size" : "a static size";
  }
};

std::vector<Demand> demands_of(const Decision& decision) {
  std::vector<Demand> out;
  for (const SourceDecision& source : decision.sources)
    for (std::size_t d = 0; d < source.dims.size(); ++d) {
      const DimDecision& dim = source.dims[d];
      Demand demand;
      demand.source =
          source.spec.kind == Kind::Tensor ? size_text(source.spec.name, d) : source.spec.name;
      demand.is_symbol = dim.is_symbol;
      demand.is_bool = source.spec.kind == Kind::Bool;
      demand.value = dim.value;
      if (dim.is_symbol) {
        demand.least = decision.symbols[dim.symbol].min;
        demand.unbacked = decision.symbols[dim.symbol].unbacked;
      }
      out.push_back(std::move(demand));
    }
  return out;
}

void add(Obstacle& obstacle, const RankSet& ranks, std::int64_t value) {
  const bool first = obstacle.ranks.count() == 0;
  obstacle.least = first ? value : std::min(obstacle.least, value);
  obstacle.greatest = first ? value : std::max(obstacle.greatest, value);
  obstacle.ranks.add(ranks);
}

/// Tests one entry against the inputs of all ranks of a call.
class Trial {
 public:
  explicit Trial(const Known& known) : known_(known) {
    for (const OwnDecision& own : known.own) demands_.push_back(demands_of(own.decision));
  }

  void add_ranks(const RankSet& ranks, const Observation& seen) {
    for (std::size_t i = 0; i < known_.own.size(); ++i) {
      const RankSet here = in_both(ranks, known_.own[i].ranks);
      if (!here.empty() && !fits(i, here, seen)) unfit_.add(here);
    }
  }

  UnfitEntry result() {
    UnfitEntry out{.entry = known_.entry, .ranks = unfit_, .obstacles = {}, .left_out = 0};
    const auto keep = [&](Obstacle& obstacle) {
      if (out.obstacles.size() < UnfitEntry::kObstacles)
        out.obstacles.push_back(std::move(obstacle));
      else
        ++out.left_out;
    };
    if (others_.ranks.count() > 0) keep(others_);
    for (std::vector<Demand>& demands : demands_)
      for (Demand& demand : demands) {
        if (demand.out_of_bounds.ranks.count() > 0) keep(demand.out_of_bounds);
        for (auto& [mark, obstacle] : demand.unmarked) keep(obstacle);
      }
    for (auto& [text, obstacle] : fields_) keep(obstacle);
    return out;
  }

 private:
  /// Tests `ranks`, which hold decision number `own` of the entry, and adds what does not fit.
  bool fits(std::size_t own, const RankSet& ranks, const Observation& seen) {
    const Decision& decision = known_.own[own].decision;
    if (!same_sources(decision, *seen.list)) {
      if (others_.needs.empty())
        others_.needs = other_source(decision.list()->sources(), *seen.list);
      add(others_, ranks, 0);
      return false;
    }
    bool out = true;
    for (std::size_t i = 0; i < demands_[own].size(); ++i)
      out &= try_value(demands_[own][i], i, ranks, seen);
    if (decision.fields.empty() && seen.fields.empty()) return out;
    const auto misfit = field_misfit(decision.fields, seen.fields);
    if (!misfit) return out;
    Obstacle& obstacle = fields_[*misfit];
    obstacle.field = *misfit;
    add(obstacle, ranks, 0);
    return false;
  }

  static bool try_value(Demand& demand, std::size_t i, const RankSet& ranks,
                        const Observation& seen) {
    const std::int64_t value = seen.values[i];
    const Mark mark = seen.marks.empty() ? Mark::None : seen.marks[i];
    const bool kept = demand.met_by(value), honoured = demand.honours(mark);
    if (kept && honoured) return true;
    Obstacle& obstacle = kept ? demand.unmarked[mark] : demand.out_of_bounds;
    if (obstacle.ranks.count() == 0) {
      obstacle.source = demand.source;
      obstacle.needs = kept ? std::string(demand.use()) : demand.asked();
      if (kept) obstacle.mark = mark_name(mark);
    }
    add(obstacle, ranks, value);
    return false;
  }

  const Known& known_;
  std::vector<std::vector<Demand>> demands_;  // by number of the decision
  Obstacle others_;
  std::map<std::string, Obstacle> fields_;  // by their text
  TruncatedRankSet unfit_;
};

Recompile explain(const Scenario& scenario, std::size_t call, const std::string& frame, int made,
                  const std::vector<Known>& known) {
  Recompile out{.call = call, .frame = frame, .entry = made, .entries = {}};
  std::vector<Trial> trials;
  for (const Known& entry : known)
    if (!entry.superseded) trials.emplace_back(entry);
  if (trials.empty()) return out;
  visit_inputs(scenario, call,
               [&](const std::string&, const RankSet& ranks, const Observation& seen) {
                 for (Trial& trial : trials) trial.add_ranks(ranks, seen);
               });
  for (Trial& trial : trials) out.entries.push_back(trial.result());
  return out;
}

}  // namespace

std::string Obstacle::text() const {
  if (!field.empty()) return fmt::format("{}: {}", ranks.text(), field);
  if (source.empty())
    return fmt::format("{} bring{} other inputs: {}", ranks.text(), ranks.count() == 1 ? "s" : "",
                       needs);
  if (!mark.empty())
    return fmt::format("{} is marked {} on {}, in the entry it is {}", source, mark, ranks.text(),
                       needs);
  const bool is_bool = needs == "true" || needs == "false";
  const std::string value = is_bool            ? (least != 0 ? "true" : "false")
                            : least < greatest ? fmt::format("{} to {}", least, greatest)
                                               : std::to_string(least);
  return fmt::format("{} is {} on {}, the entry {} {}", source, value, ranks.text(),
                     needs.starts_with("at least") ? "needs" : "has", needs);
}

std::vector<Recompile> explain_compiles(const Scenario& scenario, const DryRunResult& result) {
  std::vector<Recompile> out;
  std::map<std::string, std::vector<Known>> frames;
  std::set<std::string> fell_back;
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    const CallResult& call = result.calls[c];
    const bool fallback = call.outcome.kind == CallOutcome::Kind::Fallback;
    if (!call.reported && !fallback) continue;
    const std::string frame = frame_called(scenario, c);
    if (fallback && !fell_back.insert(frame).second) continue;
    std::vector<Known>& known = frames[frame];
    out.push_back(explain(scenario, c, frame, call.outcome.entry, known));
    if (fallback) continue;
    Known made = known_entry(call, scenario.world_size);
    for (Known& older : known) older.superseded |= supersedes(made, older);
    known.push_back(std::move(made));
  }
  return out;
}

}  // namespace lockstep::worker::simulator
