#include <algorithm>

#include <lockstep/worker/simulator/cluster/call_view.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {

std::vector<Representative> representatives_of(const std::vector<RankClass>& classes, bool apart) {
  std::vector<Representative> out;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!apart) out.push_back({c, classes[c].lowest().value});
    for (const RankSet::Run& run : classes[c].ranks.runs())
      for (std::int32_t r = run.first; apart && r <= run.last; ++r) out.push_back({c, r});
  }
  return out;
}

CallView::CallView(const Scenario& scenario, const std::vector<RankClass>& classes,
                   std::size_t call) {
  if (ranks_draw_differently(scenario, call)) {
    const std::size_t number = call - scenario.explicit_count();
    kind_ = &scenario.generator.kind(number);
    inputs_.emplace(scenario.generator.inputs(number, scenario.world_size));
    const RankSet present = scenario.generator.present(number, scenario.world_size);
    groups_ = groups_of(classes, present);
    by_all_ = present.size() == scenario.world_size;
    return;
  }
  call_ = scenario.call(call);
  groups_ = groups_of(classes, *call_);
  for (const ScenarioGroup& group : call_->groups) seen_.push_back(group.observation());
  by_all_ =
      call_->present.size() == scenario.world_size &&
      std::all_of(call_->groups.begin(), call_->groups.end(), [&](const ScenarioGroup& group) {
        return group.frame == call_->groups.front().frame;
      });
}

const std::string& CallView::frame(const Representative& representative) const {
  return inputs_ ? kind_->frame
                 : call_->groups[static_cast<std::size_t>(groups_[representative.of])].frame;
}

const Observation& CallView::of(const Representative& representative, Observation& room) const {
  if (!inputs_) return seen_[static_cast<std::size_t>(groups_[representative.of])];
  if (!room.list) room = inputs_->like();
  inputs_->fill(representative.rank, room);
  return room;
}

}  // namespace lockstep::worker::simulator
