#include "simulated_process.h"

#include <fmt/format.h>

#include <lockstep/worker/simulator/dry_run.h>

namespace lockstep::fuzz {

using worker::CallOutcome;
using worker::RoundKey;
using worker::Standing;
using K = Fault::Kind;

SimulatedProcess::SimulatedProcess(const Program& program, collectives::VirtualNetwork& network,
                                   int rank, Run& run)
    : program_(program), network_(network), rank_{rank}, run_(run) {
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    groups_.emplace_back();
    const GroupPlan& plan = program.groups[g];
    if (!plan.members.contains(rank_)) continue;
    auto group = std::make_unique<Group>();
    group->index = g;
    group->communicator = std::make_unique<FiberCommunicator>(
        network.communicator(rank_, plan.members), fiber_, abandoned_, run);
    group->driver =
        std::make_unique<worker::CallDriver>(*group->communicator, plan.config, RankSet::of(rank_));
    group->key.group = fmt::format("{}", g);
    groups_.back() = std::move(group);
  }
  fiber_ = std::make_unique<Fiber>([this] {
    try {
      live();
    } catch (const Abandoned&) {
    }
  });
}

void SimulatedProcess::live() {
  for (const Fault& fault : program_.faults)
    if (fault.kind == K::Slow && fault.rank == rank_.value)
      network_.slow(rank_, std::chrono::milliseconds(fault.amount));
  for (std::size_t s = 0; s < program_.steps.size(); ++s)
    if (groups_[program_.steps[s].group] && !step(s)) return leave();
  Group& all = *groups_[0];
  Ended ended = begin(all, program_.steps.size());
  status_round(all, RoundKey::Kind::Finish, {}, ended);
  (void)record(all, std::move(ended));
  leave();
}

// As by the end of a process that says goodbye.
void SimulatedProcess::leave() { network_.finish(rank_); }

const Fault* SimulatedProcess::fault(K kind, std::size_t step) const {
  for (const Fault& fault : program_.faults)
    if (fault.kind == kind && fault.rank == rank_.value && fault.step == step) return &fault;
  return nullptr;
}

bool SimulatedProcess::step(std::size_t index) {
  const Step& step = program_.steps[index];
  Group& group = *groups_[step.group];
  if (const Fault* pauses = fault(K::Pause, index))
    pause(std::chrono::milliseconds(pauses->amount));
  if (fault(K::Hang, index) != nullptr) {
    run_.taken_out.insert(RankSet::of(rank_));
    pause(kDeadline * 3);
  }
  if (fault(K::Skip, index) != nullptr) {
    run_.taken_out.insert(RankSet::of(rank_));
    return true;
  }
  Ended ended = begin(group, index);
  if (fault(K::Leave, index) != nullptr) {
    run_.taken_out.insert(RankSet::of(rank_));
    ended.struck = Code::Gone;
    status_round(
        group, RoundKey::Kind::Close,
        {.trouble = Status{Code::Gone, fmt::format("rank {} leaves", rank_.value), "", {}}}, ended);
    (void)record(group, std::move(ended));
    return false;
  }
  switch (step.kind) {
    case Step::Kind::Call:
      call(group, index, ended);
      break;
    case Step::Kind::Any:
      any(group, step, ended);
      break;
    case Step::Kind::Settle: {
      Standing standing;
      if (fault(K::Trouble, index) != nullptr) {
        ended.struck = Code::RuntimeAssert;
        standing.trouble =
            Status{Code::RuntimeAssert, fmt::format("an assert on {}", rank_.value), "", {}};
      }
      status_round(group, RoundKey::Kind::Settle, std::move(standing), ended);
    }
  }
  return record(group, std::move(ended));
}

Ended SimulatedProcess::begin(Group& group, std::size_t index) {
  Ended ended;
  ended.rank = rank_.value;
  ended.group = group.index;
  ended.step = index;
  ended.ordinal = ++group.key.call;
  return ended;
}

bool SimulatedProcess::record(Group& group, Ended ended) {
  ended.payloads = group.communicator->take_payloads();
  ended.longest = group.communicator->take_longest();
  ended.transport = group.communicator->take_failed();
  ended.garbled = group.communicator->garbled();
  ended.at = static_cast<std::uint64_t>(network_.clock().now().count());
  const bool goes_on =
      !ended.transport && !(ended.outcome.error && ended.outcome.error->code == Code::Gone);
  run_.ended.push_back(std::move(ended));
  return goes_on;
}

void SimulatedProcess::call(Group& group, std::size_t index, Ended& ended) {
  const Step& step = program_.steps[index];
  const GroupPlan& plan = program_.groups[step.group];
  std::size_t place = 0;
  for (const RankSet::Run& run : plan.members.runs())
    for (int r = run.first; r <= run.last && r < rank_.value; ++r) ++place;

  const bool alone = plan.members.size() == 1;
  RoundKey& key = group.key;
  key.kind = RoundKey::Kind::Call;
  key.frame = step.frame;
  Standing standing;
  if (fault(K::WrongFrame, index) != nullptr) {
    key.frame = fmt::format("wrong {}", rank_.value);
    if (!alone) ended.struck = Code::FrameMismatch;
  }
  if (const Fault* trouble = fault(K::Trouble, index)) {
    ended.struck = trouble->amount % 2 == 0 ? Code::RuntimeAssert : Code::BadInput;
    standing.trouble = Status{*ended.struck, fmt::format("trouble on {}", rank_.value), "", {}};
  }
  if (fault(K::Pending, index) != nullptr) {
    standing.pending = static_cast<std::uint64_t>(77 + rank_.value);
    if (!alone) ended.struck = ended.struck.value_or(Code::GraphDivergence);
  }
  worker::Frame& frame =
      group.frames.try_emplace(key.frame, worker::Frame(key.frame)).first->second;
  if (fault(K::LostCache, index) != nullptr) frame = worker::Frame(key.frame);
  const Fault* garbled = fault(K::Garbled, index);
  group.communicator->garble(garbled != nullptr ? std::optional(garbled->amount) : std::nullopt);

  const worker::Observation seen = worker::simulator::observation_of(step.inputs[place]);
  const auto amount = [&](K kind) {
    const Fault* found = fault(kind, index);
    return found != nullptr ? std::optional(found->amount) : std::nullopt;
  };
  Environment environment(plan, *group.driver, key, seen, rank_.value,
                          {.trace = amount(K::TraceFails),
                           .graph = amount(K::GraphDiffers),
                           .compile = amount(K::CompileFails)});
  for (const Fault& fault : program_.faults)
    if (fault.kind == K::IgnoresCommit && fault.rank == rank_.value) {
      RoundKey commit = key;
      commit.kind = RoundKey::Kind::Commit;
      group.communicator->ignore(commit.hash());
    }
  ended.outcome = group.driver->call(key, frame, seen, std::move(standing), environment);
  group.communicator->garble(std::nullopt);

  if (!ended.struck) ended.struck = environment.happened();
  ended.past = frame.digest();
  ended.live = frame.live();
  ended.graph = environment.graph();
  if (ended.outcome.entry >= 0) {
    const worker::Entry& entry = frame.entries[static_cast<std::size_t>(ended.outcome.entry)];
    ended.graph = entry.graph;
    ended.fits = entry.fits(seen);
  }
}

void SimulatedProcess::status_round(Group& group, RoundKey::Kind kind, Standing standing,
                                    Ended& ended) {
  group.key.kind = kind;
  group.key.frame.clear();
  const auto result = group.driver->status_round(group.key, standing);
  ended.outcome = {CallOutcome::Kind::Reused, -1, std::nullopt};
  if (!result) ended.outcome = {CallOutcome::Kind::Error, -1, result.error()};
}

void SimulatedProcess::any(Group& group, const Step& step, Ended& ended) {
  group.key.kind = RoundKey::Kind::More;
  group.key.frame.clear();
  const auto result = group.driver->any(group.key, (step.yes >> rank_.value & 1) != 0);
  if (result)
    ended.outcome = {CallOutcome::Kind::Reused, *result ? 1 : 0, std::nullopt};
  else
    ended.outcome = {CallOutcome::Kind::Error, -1, result.error()};
}

void SimulatedProcess::pause(Duration time) {
  bool over = false;
  network_.call_at(network_.clock().now() + time, [this, &over] { over = woken_ = true; });
  while (!over) {
    if (abandoned_) throw Abandoned{};
    fiber_->yield();
  }
}

void SimulatedProcess::abandon() {
  abandoned_ = true;
  if (!fiber_->ended()) fiber_->resume();
}

}  // namespace lockstep::fuzz
