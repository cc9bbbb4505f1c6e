#include <algorithm>
#include <bit>
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/cluster/timed_call.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

using Kind = Fault::Kind;

/// Returns a name that no call uses for an input.
std::string unused_name(const Scenario& scenario) {
  std::set<std::string> used;
  const auto add = [&](const ScenarioValues& values) {
    for (const auto& [source, value] : values) used.insert(source);
  };
  for (std::size_t i = 0; i < scenario.explicit_count(); ++i)
    for (const auto call = scenario.call(i); const ScenarioGroup& group : call->groups)
      add(group.values);
  for (const Block& block : scenario.generator.blocks) {
    add(block.call.like);
    for (const Variant& variant : block.variants) add(variant.call.like);
  }
  std::string name = "own_flag";
  while (used.contains(name)) name += '_';
  return name;
}

}  // namespace

// Units are runs of a class, cut where the ranks of a fault begin or end. If ranks draw their own
// inputs, each rank is a unit.
Cast::Cast(const Scenario& scenario, std::span<const Fault> faults)
    : scenario_(scenario),
      faults_(faults),
      classes_(classes_of(scenario)),
      compile_struck_(faults.size()) {
  std::set<std::int32_t> cuts;
  for (const Fault& fault : faults) {
    if (fault.kind == Kind::Branch) branch_ = unused_name(scenario);
    for (const RankSet::Run& run : fault.ranks.runs()) cuts.insert({run.first, run.last + 1});
  }
  const bool apart = scenario.generator.apart();
  std::vector<std::pair<Unit, std::size_t>> runs;
  for (std::size_t c = 0; c < classes_.size(); ++c)
    for (const RankSet::Run& run : classes_[c].ranks.runs())
      for (std::int32_t first = run.first; first <= run.last;) {
        const auto cut = cuts.upper_bound(first);
        std::int32_t last = cut == cuts.end() ? run.last : std::min(run.last, *cut - 1);
        if (apart) last = first;
        runs.emplace_back(Unit{first, last}, c);
        first = last + 1;
      }
  std::sort(runs.begin(), runs.end());
  for (const auto& [unit, c] : runs) {
    units_.push_back(unit);
    class_of_.push_back(c);
  }
  frames_.resize(units_.size());
}

std::size_t Cast::unit_of(Rank rank) const { return simulator::unit_of(units_, rank); }

bool Cast::hit(std::size_t unit, const Fault& fault) const {
  return fault.ranks.contains(Rank{units_[unit].first});
}

TimedCall::TimedCall(Cast& cast, std::size_t index)
    : cast_(cast), index_(index), machines_(cast.units_.size()) {
  const Scenario& scenario = cast.scenario_;
  RankSet present;
  std::vector<int> groups;
  if (!ranks_draw_differently(scenario, index)) {
    call_ = *scenario.call(index);
    present = call_.present;
    groups = groups_of(cast.classes_, call_);
  } else {
    const std::size_t number = index - scenario.explicit_count();
    drawn_ = scenario.generator.inputs(number, scenario.world_size);
    present = scenario.generator.present(number, scenario.world_size);
    call_.frame = scenario.generator.kind(number).frame;
    groups = groups_of(cast.classes_, present);
  }
  has_absent_ranks_ = present.size() != scenario.world_size;
  for (std::size_t u = machines_.size(); u-- > 0;) {
    machines_[u].group = groups[cast.class_of_[u]];
    if (machines_[u].group >= 0) lowest_ = u;
  }
  if (!drawn_ && !call_.groups.empty())
    frame_ = call_.groups[static_cast<std::size_t>(std::max(machines_[lowest_].group, 0))].frame;
  frame_ = call_.frame.value_or(frame_);
  if (!has_absent_ranks_) return;
  result_.emplace();
  result_->outcome.error = absent_ranks(present, scenario.world_size);
  if (!present.empty()) result_->frame = frame_;
}

Observation TimedCall::observation(std::size_t unit) const {
  if (drawn_) {
    Observation seen = drawn_->like();
    drawn_->fill(cast_.units_[unit].first, seen);
    return seen;
  }
  return call_.groups[static_cast<std::size_t>(machines_[unit].group)].observation();
}

bool TimedCall::branches_here(std::size_t unit) const {
  return std::any_of(cast_.faults_.begin(), cast_.faults_.end(), [&](const Fault& fault) {
    return fault.kind == Kind::Branch && fault.call == index_ && cast_.hit(unit, fault);
  });
}

// Adds a float as an input: 1 on the ranks of the fault and 0 elsewhere. Floats are part of neither
// states nor decisions.
void TimedCall::add_branch(std::size_t unit, Observation& seen) const {
  if (cast_.branch_.empty()) return;
  std::vector<SourceSpec> specs = seen.list->sources();
  const auto at = std::lower_bound(
      specs.begin(), specs.end(), cast_.branch_,
      [](const SourceSpec& spec, const std::string& name) { return spec.name < name; });
  specs.insert(at, {.name = cast_.branch_, .kind = worker::Kind::Float});
  seen.list = std::make_shared<const SourceList>(std::move(specs));
  seen.scalars.assign(seen.list->scalars(), 0);
  seen.scalars[*seen.list->scalar(*seen.list->find(cast_.branch_))] =
      std::bit_cast<std::int64_t>(branches_here(unit) ? 1.0 : 0.0);
}

void TimedCall::start(std::size_t unit) {
  Seat& seat = machines_[unit];
  const std::string& name = frame(unit);
  CodeCache& frame = cast_.frames_[unit][name];
  for (const Fault& fault : cast_.faults_)
    if (fault.kind == Kind::CacheLost && fault.call == index_ && cast_.hit(unit, fault))
      frame = CodeCache();
  frame.name = name;
  Observation seen = observation(unit);
  add_branch(unit, seen);
  RoundKey key;
  key.group = "all";
  key.frame = name;
  key.round = key.call = index_;
  RankStatus rank_status;
  const Unit& ranks = cast_.units_[unit];
  rank_status.speaks_for = RankSet::range(Rank{ranks.first}, Rank{ranks.last});
  seat.machine = std::make_unique<CallMachine>(Rank{ranks.first}, cast_.scenario_.world_size,
                                               cast_.scenario_.config, std::move(key), frame,
                                               std::move(seen), std::move(rank_status));
  go_on(unit);
}

const Action& TimedCall::action(std::size_t unit, std::size_t step) {
  Seat& seat = machines_[unit];
  if (!seat.machine) start(unit);
  return seat.actions[step];
}

const std::string& TimedCall::text(std::size_t unit) {
  Seat& seat = machines_[unit];
  if (seat.text.empty()) seat.text = fmt::format("call {} of {}", index_, frame(unit));
  return seat.text;
}

void TimedCall::report(std::size_t unit, std::size_t step, const collectives::Round& round) {
  Seat& seat = machines_[unit];
  if (seat.actions.size() > step + 1) return;
  answer(*seat.machine, round);
  go_on(unit);
}

void TimedCall::go_on(std::size_t unit) {
  Seat& seat = machines_[unit];
  for (;;) {
    const Action& action = seat.machine->next();
    if (const auto* trace = std::get_if<action::Trace>(&action)) {
      seat.sources = trace->decision->sources.size() - (cast_.branch_.empty() ? 0 : 1);
      seat.symbols = trace->decision->symbols.size();
      seat.machine->traced(traced(*trace->decision));
    } else if (std::holds_alternative<action::Explain>(action)) {
      seat.machine->explained({});
    } else if (std::holds_alternative<action::Compile>(action)) {
      strike_compile();
      seat.actions.push_back(action);
      seat.machine->compiled(compile_failure(unit));
    } else {
      seat.actions.push_back(action);
      if (const auto* finish = std::get_if<action::Finish>(&action))
        finished(unit, finish->outcome);
      return;
    }
  }
}

// As in a dry run, the program is the decision. A branch fault adds a branch on the float, whose
// agreed value is that of rank 0.
TraceReport TimedCall::traced(const Decision& decision) const {
  TraceReport report;
  report.graph = decision.digest();
  if (cast_.branch_.empty()) return report;
  const bool taken = branches_here(cast_.unit_of(Rank{0}));
  HostValue own;
  own.steps.push_back({HostValue::Code::Input, cast_.branch_, 0});
  own.steps.push_back({HostValue::Code::Number, {}, 0.5});
  own.steps.push_back({HostValue::Code::Gt, {}, 0});
  report.host_values.push_back(std::move(own));
  report.guards.push_back(
      {shapes::equal(shapes::Expr::symbol(decision.host_symbols(1)[0]), taken ? 1 : 0),
       {"the scenario's faults", 0}});
  report.graph.low ^= taken ? 1U : 0U;
  return report;
}

void TimedCall::strike_compile() {
  if (compile_seen_) return;
  compile_seen_ = true;
  for (std::size_t i = 0; i < cast_.faults_.size(); ++i) {
    const Fault& fault = cast_.faults_[i];
    if (fault.kind != Kind::CompileFails || cast_.compile_struck_[i]) continue;
    if (fault.call.value_or(0) > index_) continue;
    cast_.compile_struck_[i] = index_;
    peers_build_for_failed_ |= !fault.rejected;
  }
}

// A rejected text is an error on all ranks. If some ranks cannot run the compiler, the others build
// for them; it is an error only if no rank can.
std::optional<Status> TimedCall::compile_failure(std::size_t unit) const {
  RankSet without;
  for (std::size_t i = 0; i < cast_.faults_.size(); ++i) {
    const Fault& fault = cast_.faults_[i];
    if (cast_.compile_struck_[i] != index_) continue;
    if (!fault.rejected)
      without.insert(fault.ranks);
    else if (cast_.hit(unit, fault))
      return Status{Code::CompileError, "the compiler rejects the text"};
  }
  if (without.size() < cast_.scenario_.world_size) return std::nullopt;
  return environment_error("the compiler cannot be run");
}

void TimedCall::finished(std::size_t unit, const CallOutcome& outcome) {
  if (unit != lowest_) return;
  result_.emplace();
  result_->outcome = outcome;
  if (!outcome.error || outcome.error->code != Code::FrameMismatch) result_->frame = frame_;
  if (outcome.kind == CallOutcome::Kind::Compiled)
    result_->reported =
        machines_[unit].machine->cache().entries[static_cast<std::size_t>(outcome.entry)].reported;
}

}  // namespace lockstep::worker::simulator
