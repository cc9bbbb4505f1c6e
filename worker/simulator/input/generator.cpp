#include <algorithm>
#include <map>
#include <numeric>

#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/simulator/input/generator.h>

namespace lockstep::worker::simulator {
namespace {

bool applies(const Variant& variant, std::uint64_t of_block, std::uint64_t random) {
  const auto count = static_cast<std::uint64_t>(variant.count);
  switch (variant.when) {
    case Variant::When::First:
      return of_block < count;
    case Variant::When::Every:
      return of_block % count == count - 1;
    case Variant::When::Chance:
      return random >> 11 < variant.below;
  }
  return false;
}

/// Groups ranks by the inputs that they draw.
ScenarioCall pool_call(const GeneratedCall& made, const RankInputs& inputs, int world_size) {
  std::map<std::uint32_t, RankSet> ranks;
  for (std::int32_t r = 0; r < world_size; ++r)
    ranks[inputs.drawn_by(r)].insert(RankSet::Run{r, r});
  ScenarioCall out;
  out.frame = made.frame;
  out.present = RankSet::all(world_size);
  for (auto& [input, who] : ranks)
    out.groups.push_back(
        {std::move(who), made.frame, scenario_values((*made.pool->inputs)[input])});
  return out;
}

}  // namespace

bool GeneratedCall::apart() const {
  if (pool) return pool->distinct.size() > 1;
  return std::any_of(draws.begin(), draws.end(),
                     [](const Draw& draw) { return !draw.per.all_ranks(); });
}

std::int64_t GeneratedCall::equal_run_length(int world_size) const {
  if (apart() && pool) return 1;
  std::int64_t out = 0;
  for (const Draw& draw : draws)
    for (const Sharing::Axis& axis : draw.per.axes) out = std::gcd(out, axis.stride);
  return out == 0 ? world_size : std::min<std::int64_t>(out, world_size);
}

RankInputs::RankInputs(const GeneratedCall& call, std::uint64_t seed, std::uint64_t number,
                       int world_size)
    : like_(observation_of(call.like)),
      least_(like_),
      greatest_(like_),
      alike_(static_cast<std::int32_t>(call.equal_run_length(world_size))),
      pool_(call.pool.get()),
      pool_place_(mixed(call_place(seed, number), 0)) {
  if (pool_ != nullptr) {
    like_ = (*pool_->inputs)[drawn_by(0)];
    least_ = pool_->least;
    greatest_ = pool_->greatest;
    return;
  }
  for (std::size_t i = 0; i < call.draws.size(); ++i) {
    const Draw& draw = call.draws[i];
    const std::uint64_t place = draw.place(seed, number, i);
    const std::size_t at =
        like_.list->offsets()[like_.list->find(draw.source).value()] + draw.dim.value_or(0);
    const Bounds reach = draw.reach();
    least_.values[at] = reach.low;
    greatest_.values[at] = reach.high;
    const auto* drawn = std::get_if<Distribution>(&draw.from);
    const auto uniform =
        drawn != nullptr && draw.per.each_rank(world_size) ? drawn->as_uniform() : std::nullopt;
    const auto low = static_cast<std::uint64_t>(uniform.value_or(Bounds{}).low);
    const std::uint64_t span = static_cast<std::uint64_t>(uniform.value_or(Bounds{}).high) - low;
    if (draw.per.all_ranks())
      like_.values[at] = least_.values[at] = greatest_.values[at] = draw.at(place, 0);
    else if (uniform && span != 0 && span != UINT64_MAX)
      add({FastModulo(span + 1), low, at, {place}});
    else
      other_.push_back({&draw, place, at});
  }
  std::size_t source = 0;
  for (const auto& [name, value] : call.like) {
    if (!value.strides.empty()) strided_.push_back({source, value.strides});
    ++source;
  }
  fill(0, like_);
}

void RankInputs::add(const Uniform& one) {
  if (!uniform_.empty()) {
    Uniform& last = uniform_.back();
    if (last.by == one.by && last.low == one.low && last.at + last.places.size() == one.at) {
      last.places.push_back(one.places.front());
      return;
    }
  }
  uniform_.push_back(one);
}

// Clones for several instruction sets give the same values. The choice of a clone runs before the
// thread sanitizer has started, so builds with that sanitizer have no clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif
void RankInputs::Uniform::fill(std::uint64_t part, std::int64_t* out) const {
  const FastModulo remainder = by;
  const std::uint64_t least = low;
  const std::uint64_t* const place = places.data();
  const std::size_t count = places.size();
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::int64_t>(least + remainder.of_in_halves(mixed(place[i], part)));
}

void RankInputs::fill(std::int32_t rank, Observation& out) const {
  if (pool_ != nullptr) {
    out = (*pool_->inputs)[drawn_by(rank)];
    return;
  }
  const std::uint64_t part = static_cast<std::uint64_t>(rank) + 1;
  std::int64_t* values = out.values.data();
  for (const Uniform& draws : uniform_) draws.fill(part, values + draws.at);
  for (const Other& draw : other_) values[draw.at] = draw.draw->at(draw.place, rank);
  for (const Strided& tensor : strided_)
    out.set_order(tensor.source, dim_order(out.of(tensor.source), tensor.strides));
}

std::size_t Generator::count() const {
  std::size_t out = order.size();
  for (const Block& block : blocks) out += static_cast<std::size_t>(block.repeat);
  return out;
}

const GeneratedCall& Generator::kind(std::size_t number) const {
  if (!order.empty()) return kinds[order[number]];
  std::uint64_t of_block = number;
  auto block = blocks.begin();
  for (; of_block >= static_cast<std::uint64_t>(block->repeat); ++block)
    of_block -= static_cast<std::uint64_t>(block->repeat);
  for (std::size_t i = 0; i < block->variants.size(); ++i) {
    // Uses places downwards from UINT64_MAX, which no draw uses.
    const std::uint64_t random = mixed(mixed(call_place(seed, number), UINT64_MAX - i), 0);
    if (applies(block->variants[i], of_block, random)) return block->variants[i].call;
  }
  return block->call;
}

RankSet Generator::present(std::size_t number, int world_size) const {
  const auto away = absent.find(number);
  const RankSet all = RankSet::all(world_size);
  return away == absent.end() ? all : all.minus(away->second);
}

bool Generator::apart() const {
  if (std::ranges::any_of(kinds, &GeneratedCall::apart)) return true;
  return std::any_of(blocks.begin(), blocks.end(), [](const Block& block) {
    return block.repeat > 0 &&
           (block.call.apart() ||
            std::any_of(block.variants.begin(), block.variants.end(),
                        [](const Variant& variant) { return variant.call.apart(); }));
  });
}

ScenarioCall Generator::call(std::size_t number, int world_size) const {
  const GeneratedCall& made = kind(number);
  if (made.as_is) return *made.as_is;
  if (made.pool) return pool_call(made, inputs(number, world_size), world_size);
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < made.draws.size(); ++i)
    places.push_back(made.draws[i].place(seed, number, i));
  const auto run = static_cast<std::int32_t>(made.equal_run_length(world_size));
  std::map<std::vector<std::int64_t>, RankSet> alike;
  std::vector<std::int64_t> values(made.draws.size());
  for (std::int32_t first = 0; first < world_size; first += run) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = made.draws[i].at(places[i], first);
    alike[values].insert(RankSet::Run{first, std::min(first + run, world_size) - 1});
  }
  ScenarioCall out;
  out.frame = made.frame;
  out.present = present(number, world_size);
  const RankSet away = RankSet::all(world_size).minus(out.present);
  for (auto& [drawn, ranks] : alike) {
    ScenarioGroup group{ranks.minus(away), made.frame, made.like};
    if (group.ranks.empty()) continue;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      ScenarioValue& value = group.values.at(made.draws[i].source);
      (made.draws[i].dim ? value.sizes[*made.draws[i].dim] : value.number) = drawn[i];
    }
    out.groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace lockstep::worker::simulator
