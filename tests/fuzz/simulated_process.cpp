#include "simulated_process.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::fuzz {

using worker::CallOutcome;
using worker::RankStatus;
using K = Fault::Kind;

namespace {

/// More than ranks need to come into step again after any number of missteps.
constexpr int kMostResyncs = 20;
constexpr Duration kKernel = std::chrono::microseconds(100);

std::size_t place_in(const RankSet& members, Rank rank) {
  return static_cast<std::size_t>(members.minus(RankSet::range(rank, Rank{INT32_MAX - 1})).size());
}

}  // namespace

SimulatedProcess::SimulatedProcess(const Program& program,
                                   const std::vector<std::vector<std::size_t>>& promises,
                                   collectives::VirtualNetwork& network, int rank, Scratch& scratch,
                                   ProfileDisk* profiles, Run& run)
    : program_(program), promises_(promises), network_(network), rank_{rank}, run_(run) {
  for (std::size_t g = 0; g < program.groups.size(); ++g) make_group(g, profiles);
  if (!program.hosts.empty()) workshop_ = std::make_unique<Workshop>(program, rank_, scratch, run);
  fiber_ = std::make_unique<Fiber>([this] {
    try {
      live();
    } catch (const Abandoned&) {
    }
  });
}

void SimulatedProcess::make_group(std::size_t index, ProfileDisk* profiles) {
  groups_.emplace_back();
  const GroupPlan& plan = program_.groups[index];
  if (!plan.members.contains(rank_)) return;
  auto group = std::make_unique<Group>();
  group->index = index;
  group->place = place_in(plan.members, rank_);
  group->communicator = std::make_unique<FiberCommunicator>(
      network_.communicator(rank_, plan.members), fiber_, abandoned_, run_);
  group->rounds = std::make_unique<worker::GroupRounds>(*group->communicator, RankSet::of(rank_));
  group->agreement =
      std::make_unique<worker::Agreement>(*group->rounds, fmt::format("{}", index), plan.config);
  if (profiles != nullptr && profiles->store(index) != nullptr)
    group->agreement->use_profiles(*profiles->store(index), true, [](const Status&) {});
  groups_.back() = std::move(group);
}

std::map<std::string, coordinator::Profile> SimulatedProcess::profiles(std::size_t group) {
  std::map<std::string, coordinator::Profile> out;
  for (const Step& step : program_.steps)
    if (step.group == group && !step.frame.empty())
      out[step.frame] = worker::profile_of(groups_[group]->agreement->frame(step.frame));
  return out;
}

void SimulatedProcess::live() {
  if (const Fault* slow = fault(K::Slow))
    network_.slow(rank_, std::chrono::milliseconds(slow->amount));
  Next next = workshop_ ? agree_tools() : Next::GoOn;
  for (std::size_t s = 0; s < program_.steps.size() && next != Next::End; ++s)
    if (groups_[program_.steps[s].group]) next = step(s);
  if (next != Next::End) finish();
  leave();
}

/// Where some rank cannot build and nobody can for it, the job goes on without building.
SimulatedProcess::Next SimulatedProcess::agree_tools() {
  Group& all = *groups_[0];
  Ended ended = begin(all, 0);
  ended.turn = -1;
  if (workshop_->left_alone()) ended.struck = Code::Environment;
  const auto agreed = workshop_->agree(*all.agreement);
  if (!agreed) ended.outcome = {CallOutcome::Kind::Error, -1, agreed.error()};
  if (!agreed) workshop_.reset();
  return record(all, std::move(ended));
}

/// The last round of all ranks; those that are out of step come into step for it.
void SimulatedProcess::finish() {
  Group& all = *groups_[0];
  const std::size_t end = program_.steps.size();
  for (int tries = 0; tries < kMostResyncs; ++tries) {
    if (all.lost && resync(all, end) == Next::End) return;
    if (settle(all, end) == Next::End || !program_.recovers) return;
    if (!run_.ended.back().outcome.error) return;
  }
}

// As by the clean exit of a process.
void SimulatedProcess::leave() { network_.finish(rank_); }

const Fault* SimulatedProcess::fault(K kind, std::size_t step) const {
  for (const Fault& fault : program_.faults)
    if (fault.kind == kind && fault.rank == rank_.value && fault.step == step) return &fault;
  return nullptr;
}

const Fault* SimulatedProcess::fault(K kind) const {
  for (const Fault& fault : program_.faults)
    if (fault.kind == kind && fault.rank == rank_.value) return &fault;
  return nullptr;
}

std::optional<std::uint64_t> SimulatedProcess::amount(K kind, std::size_t step) const {
  const Fault* found = fault(kind, step);
  return found != nullptr ? std::optional(found->amount) : std::nullopt;
}

bool SimulatedProcess::arrives(std::size_t index) {
  if (const auto pauses = amount(K::Pause, index)) pause(std::chrono::milliseconds(*pauses));
  if (fault(K::Hang, index) != nullptr) {
    take_out();
    pause(kDeadline * 3);
  }
  if (fault(K::Skip, index) == nullptr) return true;
  if (program_.ends_early()) take_out();
  return false;
}

SimulatedProcess::Next SimulatedProcess::step(std::size_t index) {
  const Step& step = program_.steps[index];
  Group& group = *groups_[step.group];
  if (group.lost && step.kind != Step::Kind::Resync) return Next::Lost;
  if (!arrives(index)) return Next::GoOn;
  for (const std::size_t promised : promises_[index])
    if (in_turn(group, index, promised)) prefetch(group, promised);
  // Of a last vote nobody would hear in a call that is made alone.
  if (fault(K::Leave, index) != nullptr && step.kind != Step::Kind::Local)
    return depart(group, index);
  switch (step.kind) {
    case Step::Kind::Call:
      return call(group, index, step.inputs[group.place], 0);
    case Step::Kind::More:
      return more(group, index);
    case Step::Kind::Any:
      return vote(group, begin(group, index), (step.yes >> rank_.value & 1) != 0);
    case Step::Kind::Resync:
      return resync(group, index);
    case Step::Kind::Audit:
      return audit(group, index);
    case Step::Kind::Local:
      call_alone(index, step.inputs[group.place]);
      return Next::GoOn;
    case Step::Kind::Settle:
      break;
  }
  RankStatus rank_status;
  if (fault(K::Trouble, index) != nullptr)
    rank_status.local_error =
        Status{Code::RuntimeAssert, fmt::format("an assert on {}", rank_.value), "", {}};
  return settle(group, index, std::move(rank_status));
}

/// Errors and resyncs drop promises. What is promised next must not overtake a call whose promise
/// is gone.
bool SimulatedProcess::in_turn(Group& group, std::size_t now, std::size_t index) {
  const std::string& frame = program_.steps[index].frame;
  const bool held = group.agreement->driver().promised(group.agreement->frame(frame)) != nullptr;
  for (std::size_t s = now; s < index; ++s) {
    const Step& step = program_.steps[s];
    if (step.group != group.index || step.frame != frame) continue;
    if (!held || !group.prefetched.contains(s)) return false;
  }
  return true;
}

Ended SimulatedProcess::begin(Group& group, std::size_t index) {
  Ended ended;
  ended.rank = rank_.value;
  ended.group = group.index;
  ended.step = index;
  ended.ordinal = group.epoch << 32 | ++group.ordinal;
  ended.outcome = {CallOutcome::Kind::Reused, -1, std::nullopt};
  return ended;
}

SimulatedProcess::Next SimulatedProcess::record(Group& group, Ended ended) {
  ended.payloads = group.communicator->take_payloads();
  ended.longest = group.communicator->take_longest();
  ended.transport = group.communicator->take_failed();
  ended.garbled = group.communicator->garbled();
  ended.at = static_cast<std::uint64_t>(network_.clock().now().count());
  const std::size_t index = ended.step;
  const bool transport = ended.transport;
  const std::optional<Status>& error = run_.ended.emplace_back(std::move(ended)).outcome.error;
  if (transport || (error && error->code == Code::Gone)) return Next::End;
  if (!error) return Next::GoOn;
  if (error->code == Code::BadInput && error->message.find("was prefetched") != std::string::npos)
    return end_with_broken_promise(group, index);
  if (error->code != Code::FrameMismatch || !program_.recovers) return Next::GoOn;
  group.lost = true;
  return Next::Lost;
}

/// One more round: peers may not have heard of it yet, and none may wait for a rank that has.
SimulatedProcess::Next SimulatedProcess::end_with_broken_promise(Group& group, std::size_t index) {
  take_out();
  (void)settle(group, index);
  return Next::End;
}

SimulatedProcess::Next SimulatedProcess::vote(Group& group, Ended ended, bool mine) {
  const auto any = group.agreement->more(mine);
  if (any)
    ended.outcome.entry = *any ? 1 : 0;
  else
    ended.outcome = {CallOutcome::Kind::Error, -1, any.error()};
  return record(group, std::move(ended));
}

SimulatedProcess::Next SimulatedProcess::settle(Group& group, std::size_t index,
                                                RankStatus rank_status) {
  Ended ended = begin(group, index);
  if (rank_status.local_error) ended.struck = rank_status.local_error->code;
  const bool last = index == program_.steps.size();
  const auto all =
      group.agreement->settle(std::move(rank_status), last ? worker::RoundKey::Kind::Finish
                                                           : worker::RoundKey::Kind::Settle);
  if (!all) ended.outcome = {CallOutcome::Kind::Error, -1, all.error()};
  return record(group, std::move(ended));
}

/// Until all ranks of the group have come to it.
SimulatedProcess::Next SimulatedProcess::resync(Group& group, std::size_t index) {
  for (int tries = 0; tries < kMostResyncs; ++tries) {
    Ended ended = begin(group, index);
    ended.kind = Ended::Kind::Resync;
    const auto all = group.agreement->resync();
    if (all) {
      group.lost = false;
      group.ordinal = 0;
      ended.ordinal = ++group.epoch << 32;
    } else {
      ended.outcome = {CallOutcome::Kind::Error, -1, all.error()};
    }
    if (const Next next = record(group, std::move(ended)); next != Next::Lost) return next;
  }
  return Next::Lost;
}

void SimulatedProcess::compute() {
  bool out = false;
  for (const auto& group : groups_) out = out || (group && group->agreement->driver().has_ahead());
  if (!out) return;
  pause(kKernel);
  for (const auto& group : groups_)
    if (group) group->agreement->poke();
}

void SimulatedProcess::pause(Duration time) {
  for (Instant end = network_.clock().now() + time; network_.clock().now() < end;) {
    bool over = false;
    network_.call_at(end, [this, &over] { over = woken_ = true; });
    while (!over) {
      if (abandoned_) throw Abandoned{};
      fiber_->yield();
    }
    end = std::max(end, suspended_until_);
  }
}

void SimulatedProcess::abandon() {
  abandoned_ = true;
  if (!fiber_->ended()) fiber_->resume();
}

}  // namespace lockstep::fuzz
