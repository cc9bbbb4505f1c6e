#include <algorithm>

#include <lockstep/worker/simulator/generator.h>

namespace lockstep::worker::simulator {

bool GeneratedCall::apart() const {
  return std::any_of(draws.begin(), draws.end(), [](const Draw& draw) { return draw.per_rank; });
}

RankInputs::RankInputs(const GeneratedCall& call, std::uint64_t seed, std::uint64_t number)
    : like_(observation_of(call.like)) {
  for (std::size_t i = 0; i < call.draws.size(); ++i) {
    const Draw& draw = call.draws[i];
    const std::uint64_t place = Draw::place(seed, number, i);
    const std::size_t at =
        like_.list->offsets()[like_.list->find(draw.source).value()] + draw.dim.value_or(0);
    const auto low = static_cast<std::uint64_t>(draw.low);
    const std::uint64_t span = static_cast<std::uint64_t>(draw.high) - low;
    if (!draw.per_rank)
      like_.values[at] = draw.at(place, 0);
    else if (draw.choices.empty() && span != 0 && span != UINT64_MAX)
      uniform_.push_back({place, Remainder(span + 1), low, at});
    else
      other_.push_back({&draw, place, at});
  }
  fill(0, like_);
}

void RankInputs::fill(std::int32_t rank, Observation& out) const {
  const std::uint64_t part = static_cast<std::uint64_t>(rank) + 1;
  std::int64_t* values = out.values.data();
  for (const Uniform& draw : uniform_)
    values[draw.at] = static_cast<std::int64_t>(draw.low + draw.by.of(mixed(draw.place, part)));
  for (const Other& draw : other_) values[draw.at] = draw.draw->at(draw.place, rank);
}

std::size_t Generator::count() const {
  std::size_t out = 0;
  for (const GeneratedCall& call : calls) out += static_cast<std::size_t>(call.repeat);
  return out;
}

const GeneratedCall& Generator::kind(std::size_t number) const {
  std::size_t of = 0;
  while (number >= static_cast<std::size_t>(calls[of].repeat))
    number -= static_cast<std::size_t>(calls[of++].repeat);
  return calls[of];
}

RankSet Generator::present(std::size_t number, int world_size) const {
  const auto away = absent.find(number);
  const RankSet all = RankSet::all(world_size);
  return away == absent.end() ? all : all.minus(away->second);
}

ScenarioCall Generator::call(std::size_t number, int world_size) const {
  const GeneratedCall& made = kind(number);
  std::map<std::vector<std::int64_t>, RankSet> alike;
  const bool apart = made.apart();
  for (std::int32_t r = 0; r < (apart ? world_size : 1); ++r) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < made.draws.size(); ++i)
      values.push_back(made.draws[i].at(Draw::place(seed, number, i), r));
    alike[values].insert(apart ? RankSet::of(Rank{r}) : RankSet::all(world_size));
  }
  ScenarioCall out;
  out.frame = made.frame;
  out.present = present(number, world_size);
  const RankSet away = RankSet::all(world_size).minus(out.present);
  for (auto& [values, ranks] : alike) {
    ScenarioGroup group{ranks.minus(away), made.frame, made.like};
    if (group.ranks.empty()) continue;
    for (std::size_t i = 0; i < made.draws.size(); ++i) {
      ScenarioValue& value = group.values.at(made.draws[i].source);
      (made.draws[i].dim ? value.sizes[*made.draws[i].dim] : value.number) = values[i];
    }
    out.groups.push_back(std::move(group));
  }
  return out;
}

bool Generator::apart() const {
  return std::any_of(calls.begin(), calls.end(),
                     [](const GeneratedCall& call) { return call.repeat > 0 && call.apart(); });
}

}  // namespace lockstep::worker::simulator
