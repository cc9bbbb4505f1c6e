// The calls that a simulated rank makes, ahead, audited and alone.
#include "simulated_process.h"
#include <fmt/format.h>

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::fuzz {

using worker::CallOutcome;
using worker::RankStatus;
using K = Fault::Kind;

namespace {

CallOutcome outcome_of(const Result<worker::Agreed>& agreed) {
  if (!agreed) return {CallOutcome::Kind::Error, -1, agreed.error()};
  if (agreed->run == worker::Agreed::Run::Fallback)
    return {CallOutcome::Kind::Fallback, -1, std::nullopt};
  return {agreed->is_new ? CallOutcome::Kind::Compiled : CallOutcome::Kind::Reused, agreed->entry,
          std::nullopt};
}

Status gone_of(Rank rank) {
  return {Code::Gone, fmt::format("rank {} leaves", rank.value), "", {}};
}

/// What a rank promises that will come with something else.
Values other_than(Values inputs, std::uint64_t how) {
  for (auto& [name, value] : inputs) {
    if (how-- % 2 != 0) continue;
    if (!value.sizes.empty()) return ++value.sizes[0], inputs;
    if (value.kind == worker::Kind::Int) return ++value.number, inputs;
  }
  inputs["unforeseen"].kind = worker::Kind::Int;
  return inputs;
}

/// Its entries and its past, as by a rank that has been restarted.
void forget(worker::CodeCache& frame) {
  worker::CodeCache fresh(frame.name);
  fresh.own_config = frame.own_config;
  frame = std::move(fresh);
}

}  // namespace

void SimulatedProcess::prefetch(Group& group, std::size_t index) {
  const Step& step = program_.steps[index];
  worker::Agreement& agreement = *group.agreement;
  if (fault(K::NoPromise, index) != nullptr) return;
  // Entries cannot be forgotten while a vote on them is out.
  if (fault(K::LostCache, index) != nullptr && !agreement.driver().has_ahead())
    forget(agreement.frame(step.frame));
  Values inputs = step.inputs[group.place];
  if (const auto how = amount(K::OtherPromise, index)) inputs = other_than(inputs, *how);
  agreement.prefetch(step.frame, worker::simulator::observation_of(inputs));
  group.prefetched.insert(index);
}

RankStatus SimulatedProcess::rank_status_of(std::size_t index, bool alone, Ended& ended) const {
  RankStatus rank_status;
  if (const auto trouble = amount(K::Trouble, index)) {
    ended.struck = *trouble % 2 == 0 ? Code::RuntimeAssert : Code::BadInput;
    rank_status.local_error =
        Status{*ended.struck, fmt::format("trouble on {}", rank_.value), "", {}};
  }
  if (fault(K::Leave, index) != nullptr) {
    ended.struck = Code::Gone;
    rank_status.local_error = gone_of(rank_);
  }
  if (fault(K::Pending, index) != nullptr) {
    rank_status.pending = static_cast<std::uint64_t>(77 + rank_.value);
    if (!alone) ended.struck = ended.struck.value_or(Code::GraphDivergence);
  }
  return rank_status;
}

SimulatedProcess::Next SimulatedProcess::call(Group& group, std::size_t index, const Values& inputs,
                                              int turn) {
  const GroupPlan& plan = program_.groups[group.index];
  worker::Agreement& agreement = *group.agreement;
  Ended ended = begin(group, index);
  ended.kind = Ended::Kind::Call;
  ended.turn = turn;
  ended.frame = program_.steps[index].frame;
  const bool alone = plan.members.size() == 1;
  if (fault(K::WrongFrame, index) != nullptr) {
    ended.frame = fmt::format("wrong {}", rank_.value);
    if (!alone) ended.struck = Code::FrameMismatch;
  }
  worker::CodeCache& frame = agreement.frame(ended.frame);
  const bool ahead = agreement.driver().is_ahead(frame);
  run_.prefetched += ahead;
  RankStatus rank_status = rank_status_of(index, alone, ended);
  ended.broke_promise = ahead && (rank_status.local_error || rank_status.pending != 0);
  if (group.prefetched.contains(index) && fault(K::OtherPromise, index) != nullptr &&
      agreement.driver().promised(frame) != nullptr) {
    ended.struck = ended.struck.value_or(Code::BadInput);
    ended.broke_promise = true;
  }
  if (ended.broke_promise) take_out();
  group.prefetched.erase(index);
  if (fault(K::LostCache, index) != nullptr && !agreement.driver().has_ahead()) forget(frame);
  group.communicator->garble(amount(K::Garbled, index));
  const worker::Observation seen = worker::simulator::observation_of(inputs);
  Environment environment(plan, agreement, *group.communicator, seen, rank_.value,
                          {.trace = amount(K::TraceFails, index),
                           .graph = amount(K::GraphDiffers, index),
                           .compile = amount(K::CompileFails, index),
                           .ignores_commit = fault(K::IgnoresCommit) != nullptr,
                           .step = index,
                           .corrupt = fault(K::CorruptUnit, index) != nullptr},
                          workshop_.get());
  ended.outcome =
      outcome_of(agreement.agree(ended.frame, seen, environment, std::move(rank_status)));
  group.communicator->garble(std::nullopt);

  if (!ended.struck) ended.struck = environment.happened();
  ended.number = group.epoch << 32 | agreement.key().round;
  ended.past = frame.digest();
  ended.live = frame.live();
  ended.graph = environment.graph();
  ended.objects = environment.objects();
  ended.toolchain_key = environment.toolchain_key();
  if (ended.outcome.entry >= 0) {
    const worker::Entry& entry = frame.entries[static_cast<std::size_t>(ended.outcome.entry)];
    ended.graph = entry.graph;
    ended.fits = entry.fits(seen);
    if (ended.fits) ended.uniform = entry.uniform_values(seen);
  }
  const Next next = record(group, std::move(ended));
  if (next == Next::GoOn) compute();
  return next;
}

/// As a rank that decides for itself would: its program follows from its own sizes, its collectives
/// from its sources.
SimulatedProcess::Next SimulatedProcess::audit(Group& group, std::size_t index) {
  const Step& step = program_.steps[index];
  worker::Agreement& agreement = *group.agreement;
  Ended ended = begin(group, index);
  ended.kind = Ended::Kind::Audit;
  worker::AuditedCall own{.observation =
                              worker::simulator::observation_of(step.inputs[group.place])};
  shapes::FingerprintBuilder program;
  program.add(own.observation.list->digest());
  for (const std::int64_t value : own.observation.values) program.add(value);
  own.program = program.finish();
  own.collectives = own.observation.list->digest();
  if (const auto differs = amount(K::GraphDiffers, index))
    (*differs % 2 == 0 ? own.program : *own.collectives).low ^=
        static_cast<std::uint64_t>(1000 + rank_.value);
  const bool alone = program_.groups[group.index].members.size() == 1;
  own.local_error = rank_status_of(index, alone, ended).local_error;
  if (ended.struck == Code::GraphDivergence) ended.struck.reset();  // it carries no asserts
  ended.graph = own.program;
  ended.objects = *own.collectives;
  const std::uint64_t before = agreement.frame(step.frame).digest();
  const auto audited = agreement.audit(step.frame, std::move(own));
  run_.audit_changes |= before != agreement.frame(step.frame).digest();
  if (audited)
    ended.finding = audited->finding;
  else
    ended.outcome = {CallOutcome::Kind::Error, -1, audited.error()};
  return record(group, std::move(ended));
}

/// By the rules for a group of one: nobody hears of it, nobody is waited for.
void SimulatedProcess::call_alone(std::size_t index, const Values& inputs) {
  const Step& step = program_.steps[index];
  GroupPlan plan = program_.groups[step.group];
  plan.members = RankSet::of(rank_);
  if (!local_) {
    alone_ = std::make_unique<FiberCommunicator>(network_.communicator(rank_, plan.members), fiber_,
                                                 abandoned_, run_);
    local_ = std::make_unique<worker::Agreement>(*alone_, "alone", worker::DecisionConfig{});
  }
  const Instant start = network_.clock().now();
  const std::uint64_t messages = network_.traffic(rank_).messages;
  const worker::Observation seen = worker::simulator::observation_of(inputs);
  Environment environment(plan, *local_, *alone_, seen, rank_.value, {}, nullptr);
  const auto agreed = local_->agree(step.frame, seen, environment);
  if (alone_->take_failed()) return;  // the job is over for all
  ++run_.local;
  const bool fits =
      agreed &&
      (agreed->entry < 0 ||
       local_->frame(step.frame).entries[static_cast<std::size_t>(agreed->entry)].fits(seen));
  if (!fits || network_.clock().now() != start || network_.traffic(rank_).messages != messages)
    ++run_.not_local;
}

SimulatedProcess::Next SimulatedProcess::more(Group& group, std::size_t index) {
  const Step& step = program_.steps[index];
  const int batches = step.batches[group.place];
  for (int turn = 0;; ++turn) {
    Ended ended = begin(group, index);
    ended.kind = Ended::Kind::More;
    ended.turn = turn;
    if (const Next next = vote(group, std::move(ended), turn < batches); next != Next::GoOn)
      return next;
    const CallOutcome& any = run_.ended.back().outcome;
    if (any.error || any.entry == 0) return Next::GoOn;
    const Next next = call(group, index, batch_of(step.inputs[group.place], batches, turn), turn);
    if (next != Next::GoOn) return next;
  }
}

/// Casts its last vote. A call that it has promised it takes part in, so that its peers hear of it.
SimulatedProcess::Next SimulatedProcess::depart(Group& group, std::size_t index) {
  take_out();
  const Step& step = program_.steps[index];
  worker::Agreement& agreement = *group.agreement;
  RankStatus last{.pending = 0, .local_error = gone_of(rank_)};
  if (step.kind == Step::Kind::Call && agreement.driver().is_ahead(agreement.frame(step.frame))) {
    (void)call(group, index, step.inputs[group.place], 0);
    last = {};
  }
  (void)settle(group, index, std::move(last));
  return Next::End;
}

}  // namespace lockstep::fuzz
