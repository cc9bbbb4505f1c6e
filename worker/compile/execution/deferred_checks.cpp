#include <utility>

#include <lockstep/worker/compile/execution/deferred_checks.h>
#include <lockstep/worker/compile/run/run_failure.h>

namespace lockstep::worker {

void DeferredChecks::started(std::size_t step) {
  if (program_.steps[step].deferred()) started_.push_back(step);
}

std::optional<LocalFailure> DeferredChecks::failure(Backend& backend, const RunValues& values,
                                                    std::optional<LocalFailure> known) {
  if (started_.empty()) return known;
  const std::vector<std::size_t> asked = std::exchange(started_, {});
  const auto outcomes = backend.outcomes();
  if (!outcomes)
    return known ? known : LocalFailure{outcomes.error(), program_.steps[asked.back()].node};
  for (std::size_t at : asked) {
    const Step& step = program_.steps[at];
    const std::span<const std::int64_t> outcome = outcomes->subspan(step.outcome);
    if (outcome[0] < 0) continue;
    const auto elements = static_cast<std::size_t>(values[step.args[0]]);
    const std::int64_t limit = values[step.args[1]];
    return LocalFailure{
        step.kind == Step::Kind::IndexCheck
            ? index_failure(program_.graph, step.node, outcome[0], outcome[1], limit)
            : counts_failure(program_.graph, step.node, outcome.subspan(1, elements), limit),
        step.node};
  }
  return known;
}

}  // namespace lockstep::worker
