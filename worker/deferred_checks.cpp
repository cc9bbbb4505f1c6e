#include <utility>

#include <lockstep/worker/deferred_checks.h>
#include <lockstep/worker/run_failure.h>

namespace lockstep::worker {

void DeferredChecks::started(std::size_t step) {
  const Step& check = program_.steps[step];
  if (check.kind == Step::Kind::IndexCheck && check.launch) started_.push_back(step);
}

std::optional<LocalFailure> DeferredChecks::failure(Machine& machine, const RunValues& values,
                                                    std::optional<LocalFailure> known) {
  if (started_.empty()) return known;
  const std::vector<std::size_t> asked = std::exchange(started_, {});
  const auto outcomes = machine.outcomes();
  if (!outcomes)
    return known ? known : LocalFailure{outcomes.error(), program_.steps[asked.back()].node};
  for (std::size_t at : asked) {
    const Step& step = program_.steps[at];
    const auto outcome = outcomes->subspan(std::size_t{2} * step.outcome, 2);
    if (outcome[0] >= 0)
      return LocalFailure{
          index_failure(program_.graph, step.node, outcome[0], outcome[1], values[step.args[1]]),
          step.node};
  }
  return known;
}

}  // namespace lockstep::worker
