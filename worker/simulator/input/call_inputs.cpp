#include <algorithm>

#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

/// Visits the ranks of a call in which each rank draws its inputs; makes one input after another.
void visit_drawn(const Scenario& scenario, std::size_t number, const InputsVisitor& visit,
                 std::int32_t at_most) {
  const GeneratedCall& kind = scenario.generator.kind(number);
  const RankInputs inputs = scenario.generator.inputs(number, scenario.world_size);
  const RankSet away = RankSet::all(scenario.world_size)
                           .minus(scenario.generator.present(number, scenario.world_size));
  const std::int64_t runs = (scenario.world_size - 1) / inputs.alike() + 1;
  const std::int64_t step = inputs.alike() * std::max<std::int64_t>(1, runs / at_most);
  Observation seen = inputs.like();
  for (std::int64_t first = 0; first < scenario.world_size; first += step) {
    const auto low = static_cast<std::int32_t>(first);
    const auto high = static_cast<std::int32_t>(
        std::min<std::int64_t>(first + inputs.alike(), scenario.world_size) - 1);
    const RankSet ranks = RankSet::range(Rank{low}, Rank{high}).minus(away);
    if (ranks.empty()) continue;
    inputs.fill(low, seen);
    visit(kind.frame, ranks, seen);
  }
}

}  // namespace

bool ranks_draw_differently(const Scenario& scenario, std::size_t index) {
  const std::size_t before = scenario.explicit_count();
  return index >= before && scenario.generator.kind(index - before).apart();
}

std::string frame_called(const Scenario& scenario, std::size_t index) {
  if (index >= scenario.explicit_count())
    return scenario.generator.kind(index - scenario.explicit_count()).frame;  // of all ranks
  const auto call = scenario.call(index);
  const ScenarioGroup* lowest = nullptr;
  for (const ScenarioGroup& group : call->groups)
    if (lowest == nullptr || group.ranks.lowest() < lowest->ranks.lowest()) lowest = &group;
  return lowest == nullptr ? std::string() : lowest->frame;
}

void visit_inputs(const Scenario& scenario, std::size_t index, const InputsVisitor& visit,
                  std::int32_t at_most) {
  if (ranks_draw_differently(scenario, index))
    return visit_drawn(scenario, index - scenario.explicit_count(), visit, at_most);
  const auto call = scenario.call(index);
  for (const ScenarioGroup& group : call->groups)
    visit(group.frame, group.ranks, group.observation());
}

}  // namespace lockstep::worker::simulator
