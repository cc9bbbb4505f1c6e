#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/dry_run.h>
#include <lockstep/worker/simulator/group.h>
#include <lockstep/worker/simulator/partition.h>

namespace lockstep::worker::simulator {
namespace {

/// Runs of ranks, ascending, with the class that each belongs to.
struct Layout {
  std::vector<Unit> units;
  std::vector<std::size_t> class_of;
};

Layout lay_out(const std::vector<RankClass>& classes, Manner manner) {
  std::vector<std::pair<Unit, std::size_t>> runs;
  for (std::size_t c = 0; c < classes.size(); ++c)
    for (const RankSet::Run& run : classes[c].ranks.runs()) {
      if (manner == Manner::Folded)
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

/// The simulated job: each unit with its own cache per frame.
class Job {
 public:
  Job(const Scenario& scenario, Manner manner)
      : scenario_(scenario),
        classes_(partition(scenario)),
        layout_(lay_out(classes_, manner)),
        frames_(layout_.units.size()),
        group_(manner == Manner::Folded ? folded_group(layout_.units, scenario.world_size)
                                        : virtual_group(scenario.world_size)) {}

  CallResult call(std::size_t index) {
    const ScenarioCall& call = scenario_.calls[index];
    const std::size_t count = layout_.units.size();
    std::vector<Observation> observations;
    for (const ScenarioGroup& group : call.groups)
      observations.push_back(observation_of(group.values));
    std::vector<std::unique_ptr<CallMachine>> machines(count);
    std::optional<std::size_t> lowest;  // the lowest unit present
    for (std::size_t i = 0; i < count; ++i) {
      const int group = classes_[layout_.class_of[i]].group[index];
      if (group < 0) continue;
      if (!lowest) lowest = i;
      const auto g = static_cast<std::size_t>(group);
      machines[i] = machine(index, i, call.groups[g].frame, observations[g]);
    }
    const Status absent = absent_ranks(call.present, scenario_.world_size);
    CallResult result;
    if (!lowest) {
      result.outcome.error = absent;
      return result;
    }
    group_->run(machines, absent);
    result.outcome = std::get<action::Finish>(machines[*lowest]->next()).outcome;
    const int group = classes_[layout_.class_of[*lowest]].group[index];
    const std::string& frame = call.groups[static_cast<std::size_t>(group)].frame;
    if (!result.outcome.error || result.outcome.error->code != Code::FrameMismatch)
      result.frame = call.frame.value_or(frame);
    if (result.outcome.kind == CallOutcome::Kind::Compiled)
      result.reported = frames_[*lowest]
                            .at(frame)
                            .entries[static_cast<std::size_t>(result.outcome.entry)]
                            .reported;
    return result;
  }

  [[nodiscard]] const Group& group() const { return *group_; }

 private:
  std::unique_ptr<CallMachine> machine(std::size_t index, std::size_t unit, const std::string& name,
                                       const Observation& observation) {
    Frame& frame = frames_[unit][name];
    frame.name = name;
    RoundKey key;
    key.group = "all";
    key.frame = name;
    key.call = index;
    Standing standing;
    standing.speaks_for =
        RankSet::range(Rank{layout_.units[unit].first}, Rank{layout_.units[unit].last});
    return std::make_unique<CallMachine>(Rank{layout_.units[unit].first}, scenario_.world_size,
                                         scenario_.config, std::move(key), frame, observation,
                                         std::move(standing));
  }

  const Scenario& scenario_;
  std::vector<RankClass> classes_;
  Layout layout_;
  std::vector<std::map<std::string, Frame>> frames_;  // per unit, by name
  std::unique_ptr<Group> group_;
};

void add_value(const ScenarioValue& value, Observation& out) {
  const std::size_t before = out.values.size();
  if (value.kind == Kind::Tensor)
    out.values.insert(out.values.end(), value.sizes.begin(), value.sizes.end());
  else if (value.kind != Kind::Float)
    out.values.push_back(value.number);
  if (!value.strides.empty()) {
    out.strides.resize(before, kContiguous);
    out.strides.insert(out.strides.end(), value.strides.begin(), value.strides.end());
  }
  if (value.marks.empty()) return;
  out.marks.resize(before, Mark::None);
  out.marks.insert(out.marks.end(), value.marks.begin(), value.marks.end());
}

}  // namespace

Observation observation_of(const ScenarioValues& values) {
  std::vector<SourceSpec> specs;
  Observation out;
  for (const auto& [name, value] : values) {
    SourceSpec spec{.name = name, .kind = value.kind};
    if (value.kind == Kind::Tensor) {
      spec.dtype = value.dtype;
      spec.ndim = static_cast<std::uint32_t>(value.sizes.size());
    }
    specs.push_back(std::move(spec));
    add_value(value, out);
  }
  if (!out.marks.empty()) out.marks.resize(out.values.size(), Mark::None);
  if (!out.strides.empty()) out.strides.resize(out.values.size(), kContiguous);
  out.list = std::make_shared<const SourceList>(std::move(specs));
  return out;
}

Status absent_ranks(const RankSet& present, int world_size) {
  const RankSet absent = RankSet::all(world_size).minus(present);
  Status status{Code::AbsentRanks, {}, {}, {}};
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
                "rank{} {} did not make this call, which the others waited in until the "
                "deadline; let every rank of the group make it, with an empty batch where "
                "it has no data",
                absent.size() == 1 ? "" : "s", absent.text());
  return status;
}

DryRunResult dry_run(const Scenario& scenario, Manner manner) {
  DryRunResult result;
  result.world_size = scenario.world_size;
  Job job(scenario, manner);
  for (std::size_t i = 0; i < scenario.calls.size(); ++i) result.calls.push_back(job.call(i));
  result.bytes_per_rank_max = job.group().bytes_per_rank_max();
  result.rounds = job.group().rounds();
  result.uncoordinated = run_uncoordinated(scenario);
  return result;
}

DryRunResult dry_run(const Scenario& scenario) {
  return dry_run(scenario,
                 scenario.world_size <= kEveryRankLimit ? Manner::EveryRank : Manner::Folded);
}

}  // namespace lockstep::worker::simulator
