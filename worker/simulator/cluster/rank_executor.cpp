#include <lockstep/worker/simulator/cluster/rank_executor.h>

namespace lockstep::worker::simulator {

bool answer_locally(CallMachine& machine, LocalWork* work, const KnownTraces* traces) {
  for (;;) {
    const Action& action = machine.next();
    if (const auto* trace = std::get_if<action::Trace>(&action)) {
      const TraceReport* known =
          traces == nullptr ? nullptr : traces->find(machine.cache().name, *trace->decision);
      TraceReport report;
      if (known != nullptr)
        report = *known;
      else
        report.graph = trace->decision->digest();
      if (work != nullptr)
        work->join({trace->decision->sources.size(), trace->decision->symbols.size(), false});
      machine.traced(std::move(report));
    } else if (std::holds_alternative<action::Explain>(action)) {
      machine.explained({});
    } else if (std::holds_alternative<action::Compile>(action)) {
      if (work != nullptr) work->built = true;
      machine.compiled(std::nullopt);
    } else {
      return !std::holds_alternative<action::Finish>(action);
    }
  }
}

bool MachineExecutor::answer_timed(CallMachine& machine) const {
  if (clock_ == nullptr) return answer_locally(machine, nullptr, traces_);
  LocalWork work;
  const bool waits = answer_locally(machine, &work, traces_);
  clock_->work(work);
  return waits;
}

bool ask_alike(Machines machines) {
  return std::ranges::all_of(machines, [&](const auto& machine) {
    return machine->next().index() == machines[0]->next().index();
  });
}

collectives::Vote joint_vote(Machines machines) {
  collectives::Vote all;
  for (const auto& machine : machines) {
    const auto& asked = std::get<action::Vote>(machine->next());
    all.join(asked.mine, asked.combine);
  }
  return all;
}

void answer(CallMachine& machine, const collectives::Round& round) {
  if (const auto* vote = dynamic_cast<const collectives::VoteRound*>(&round))
    machine.voted(vote->result());
  else if (const auto* tree = dynamic_cast<const collectives::TreeRound*>(&round))
    machine.joined(tree->result());
  else
    machine.joined(dynamic_cast<const collectives::BroadcastRound&>(round).result());
}

}  // namespace lockstep::worker::simulator
