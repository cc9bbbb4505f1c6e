#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/simulator/cluster/drawn_job.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/cluster/streamed_executor.h>
#include <lockstep/worker/simulator/cluster/timed_run.h>
#include <lockstep/worker/simulator/draw/parallel.h>
#include <lockstep/worker/simulator/input/call_inputs.h>
#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {
namespace {

/// Runs of ranks, ascending, and the class of each.
struct Layout {
  std::vector<Unit> units;
  std::vector<std::size_t> class_of;
};

Layout lay_out(const std::vector<RankClass>& classes, Manner manner) {
  std::vector<std::pair<Unit, std::size_t>> runs;
  for (std::size_t c = 0; c < classes.size(); ++c)
    for (const RankSet::Run& run : classes[c].ranks.runs()) {
      if (manner != Manner::EveryRank)
        runs.emplace_back(run, c);
      else
        for (std::int32_t r = run.first; r <= run.last; ++r) runs.emplace_back(Unit{r, r}, c);
    }
  std::sort(runs.begin(), runs.end());
  Layout layout;
  for (const auto& [unit, c] : runs) {
    layout.units.push_back(unit);
    layout.class_of.push_back(c);
  }
  return layout;
}

void fill_elements(const RankInputs& inputs, std::span<std::int64_t> out) {
  const auto shares = shares_of(static_cast<std::int32_t>(out.size()));
  in_parallel(shares.size(), [&](std::size_t i) {
    Observation seen = inputs.like();
    for (std::int32_t r = shares[i].first; r <= shares[i].last; ++r) {
      inputs.fill(r, seen);
      out[static_cast<std::size_t>(r)] = elements_of(seen);
    }
  });
}

/// The simulated job: each unit has its own cache per frame.
class Job {
 public:
  Job(const Scenario& scenario, Manner manner, const DryRunOptions& options)
      : scenario_(scenario),
        from_(options.from),
        classes_(classes_of(scenario)),
        layout_(lay_out(classes_, manner)),
        frames_(layout_.units.size()) {
    if (manner == Manner::Streamed) {
      auto streamed =
          std::make_unique<StreamedExecutor>(layout_.units, scenario.world_size, scenario.config);
      streamed_ = streamed.get();
      executor_ = std::move(streamed);
    } else {
      executor_ = manner == Manner::Folded ? folded_executor(layout_.units, scenario.world_size)
                                           : virtual_executor(scenario.world_size);
    }
    executor_->trace_by(scenario.traces.get());
    if (!scenario.cost) return;
    clock_.emplace(*scenario.cost, scenario.world_size, scenario.count(), options.most_spans);
    executor_->time_by(*clock_);
  }

  CallResult call(std::size_t index) {
    if (!ranks_draw_differently(scenario_, index)) return call(index, *scenario_.call(index));
    const std::size_t number = index - scenario_.explicit_count();
    return call(index, scenario_.generator.kind(number),
                scenario_.generator.inputs(number, scenario_.world_size));
  }

  [[nodiscard]] const RankExecutor& executor() const { return *executor_; }
  /// All ranks make every commit, so all have learnt the same.
  [[nodiscard]] Profiles learnt() const {
    Profiles out;
    for (const auto& [name, frame] : frames_.front())
      if (!frame.entries.empty()) out[name] = profile_of(frame);
    return out;
  }
  [[nodiscard]] std::optional<Timing> take_timing() {
    return clock_ ? std::optional(clock_->take()) : std::nullopt;
  }

 private:
  /// Runs a call in which the ranks of each unit are equal.
  CallResult call(std::size_t index, const ScenarioCall& call) {
    std::vector<Observation> observations;
    for (const ScenarioGroup& group : call.groups) observations.push_back(group.observation());
    std::vector<std::unique_ptr<CallMachine>> machines(layout_.units.size());
    std::string lowest;  // the frame of the lowest unit present
    const std::vector<int> groups = groups_of(classes_, call);
    for (std::size_t i = machines.size(); i-- > 0;) {
      const int group = groups[layout_.class_of[i]];
      if (group < 0) continue;
      const auto g = static_cast<std::size_t>(group);
      lowest = call.groups[g].frame;
      machines[i] = machine(index, i, lowest, observations[g]);
    }
    const Status absent = absent_ranks(call.present, scenario_.world_size);
    if (clock_) clock_->begin(call.present, lowest);
    if (!call.groups.empty()) executor_->run(machines, absent);
    CallResult result = result_of(machines, call.frame.value_or(lowest), lowest, absent);
    if (clock_)
      clock_->end(!result.outcome.error, [&](std::span<std::int64_t> out) {
        for (std::size_t g = 0; g < call.groups.size(); ++g)
          for (const RankSet::Run& run : call.groups[g].ranks.runs())
            std::fill(out.begin() + run.first, out.begin() + run.last + 1,
                      elements_of(observations[g]));
      });
    return result;
  }

  /// Runs a call in which each rank has its own values.
  CallResult call(std::size_t index, const GeneratedCall& kind, const RankInputs& inputs) {
    std::vector<std::unique_ptr<CallMachine>> machines(layout_.units.size());
    const RankSet present =
        scenario_.generator.present(index - scenario_.explicit_count(), scenario_.world_size);
    const std::vector<int> groups = groups_of(classes_, present);
    for (std::size_t i = 0; i < machines.size(); ++i) {
      if (groups[layout_.class_of[i]] < 0) continue;
      Observation seen = inputs.like();
      inputs.fill(layout_.units[i].first, seen);
      machines[i] = machine(index, i, kind.frame, seen);
    }
    const Status absent = absent_ranks(present, scenario_.world_size);
    if (clock_) clock_->begin(present, kind.frame);
    streamed_->run(machines, inputs, absent);
    CallResult result = result_of(machines, kind.frame, kind.frame, absent);
    if (clock_)
      clock_->end(!result.outcome.error,
                  [&](std::span<std::int64_t> out) { fill_elements(inputs, out); });
    return result;
  }

  /// Returns the result of the lowest unit that makes the call; `own` is the frame that it called.
  CallResult result_of(Machines machines, const std::string& frame, const std::string& own,
                       const Status& absent) {
    CallResult result;
    const auto lowest =
        std::find_if(machines.begin(), machines.end(), [](const auto& m) { return m != nullptr; });
    if (lowest == machines.end()) {
      result.outcome.error = absent;
      return result;
    }
    result.outcome = std::get<action::Finish>((*lowest)->next()).outcome;
    if (!result.outcome.error || result.outcome.error->code != Code::FrameMismatch)
      result.frame = frame;
    if (result.outcome.kind != CallOutcome::Kind::Compiled) return result;
    const auto entry = static_cast<std::size_t>(result.outcome.entry);
    const auto first = static_cast<std::size_t>(lowest - machines.begin());
    result.reported = frames_[first].at(own).entries[entry].reported;
    if (scenario_.config.consistency == Consistency::SharedSizes)
      result.own = own_decisions(held_of(machines, own, entry));
    return result;
  }

  /// Returns each unit's decision for the entry: under shared_sizes they may differ.
  HeldDecisions held_of(Machines machines, const std::string& frame, std::size_t entry) const {
    HeldDecisions out;
    for (std::size_t i = 0; i < machines.size(); ++i) {
      if (machines[i] == nullptr) continue;
      const Unit& unit = layout_.units[i];
      out.emplace_back(RankSet::range(Rank{unit.first}, Rank{unit.last}),
                       &frames_[i].at(frame).entries[entry].decision);
    }
    return out;
  }

  std::unique_ptr<CallMachine> machine(std::size_t index, std::size_t unit, const std::string& name,
                                       const Observation& observation) {
    const auto [at, fresh] = frames_[unit].try_emplace(name, name);
    CodeCache& frame = at->second;
    if (fresh && from_ != nullptr)
      if (const auto kept = from_->find(name); kept != from_->end())
        frame.adopt(state_from(kept->second, *observation.list));
    RoundKey key;
    key.group = "all";
    key.frame = name;
    key.round = key.call = index;
    RankStatus rank_status;
    rank_status.speaks_for =
        RankSet::range(Rank{layout_.units[unit].first}, Rank{layout_.units[unit].last});
    return std::make_unique<CallMachine>(Rank{layout_.units[unit].first}, scenario_.world_size,
                                         scenario_.config_of(name), std::move(key), frame,
                                         observation, std::move(rank_status));
  }

  const Scenario& scenario_;
  const Profiles* from_;
  std::vector<RankClass> classes_;
  Layout layout_;
  std::vector<std::map<std::string, CodeCache>> frames_;  // by unit, then by name
  std::unique_ptr<RankExecutor> executor_;
  StreamedExecutor* streamed_ = nullptr;
  std::optional<RunClock> clock_;  // if the scenario has costs
};

}  // namespace

std::int64_t elements_of(const Observation& seen) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < seen.list->sources().size(); ++i) {
    if (seen.list->sources()[i].kind != Kind::Tensor) continue;
    std::int64_t product = 1;
    for (const std::int64_t size : seen.of(i))
      if (__builtin_mul_overflow(product, size, &product)) product = INT64_MAX;
    if (__builtin_add_overflow(sum, product, &sum)) sum = INT64_MAX;
  }
  return sum;
}

Status absent_ranks(const RankSet& present, int world_size) {
  const RankSet absent = RankSet::all(world_size).minus(present);
  Status status{Code::AbsentRanks, {}};
  if (!present.empty()) status.groups.push_back({present, "present"});
  if (!absent.empty()) status.groups.push_back({absent, "absent"});
  std::sort(status.groups.begin(), status.groups.end(), [](const RankValue& a, const RankValue& b) {
    return a.ranks.lowest() < b.ranks.lowest();
  });
  status.message =
      present.empty()
          ? std::string(
                "no rank makes this call; let every rank of the group make it, with an empty "
                "batch where it has no data")
          : fmt::format(
                "{} did not make this call, which the others waited in until the "
                "deadline; let every rank of the group make it, with an empty batch where "
                "it has no data",
                absent.phrase());
  return status;
}

template <class AnyJob>
static DryRunResult run_job(AnyJob job, const Scenario& scenario, const DryRunOptions& options) {
  DryRunResult result;
  result.world_size = scenario.world_size;
  const std::size_t count = scenario.count();
  result.calls.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (options.progress) options.progress("calls", i, count);
    result.calls.push_back(job.call(i));
  }
  result.bytes_per_rank_max = job.executor().bytes_per_rank_max();
  result.rounds = job.executor().rounds();
  if (options.learnt != nullptr) *options.learnt = job.learnt();
  result.timing = job.take_timing();
  if (options.counterfactual) result.uncoordinated = run_uncoordinated(scenario, options.progress);
  return result;
}

DryRunResult dry_run(const Scenario& scenario, Manner manner, const DryRunOptions& options) {
  if (manner == Manner::Drawn) return run_job(DrawnJob(scenario, options), scenario, options);
  if (manner != Manner::Streamed && scenario.generator.apart())
    return dry_run(expanded(scenario), manner, options);
  return run_job(Job(scenario, manner, options), scenario, options);
}

DryRunResult dry_run(const Scenario& scenario, const DryRunOptions& options) {
  Manner manner = scenario.world_size <= kEveryRankLimit ? Manner::EveryRank : Manner::Folded;
  if (scenario.generator.apart()) manner = Manner::Streamed;
  if (!scenario.generator.order.empty()) manner = Manner::Drawn;
  DryRunResult result = dry_run(scenario, manner, options);
  if (scenario.faults) result.faults = fault_report(scenario, options.progress);
  return result;
}

}  // namespace lockstep::worker::simulator
