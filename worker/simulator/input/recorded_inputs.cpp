#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/input/recorded_inputs.h>

namespace lockstep::worker::simulator {
namespace {

shapes::Fingerprint digest_in(const std::string& frame, const Observation& seen) {
  shapes::FingerprintBuilder out;
  return out.add(frame).add(observation_digest(seen)).finish();
}

/// Digest of a structure. Inputs with fields have other digests, since they are never drawn.
shapes::Fingerprint structure_digest(const Observation& seen) {
  shapes::FingerprintBuilder out;
  return out.add(seen.list->digest()).add(seen.fields.empty() ? "" : "fields").finish();
}

/// First of the virtual ranks that have the inputs of recorded rank r; the ranks are neighbours.
std::int32_t first_in_place(std::size_t r, std::size_t recorded, int world_size) {
  const auto ranks = static_cast<std::int64_t>(recorded);
  return static_cast<std::int32_t>((static_cast<std::int64_t>(r) * world_size + ranks - 1) / ranks);
}

RankSet in_place_of(std::size_t r, std::size_t recorded, int world_size) {
  const std::int32_t first = first_in_place(r, recorded, world_size);
  const std::int32_t end = first_in_place(r + 1, recorded, world_size);
  return first < end ? RankSet::range(Rank{first}, Rank{end - 1}) : RankSet();
}

/// True for each value that drawn calls always keep: bools, and sizes that this rank marks static
/// or uniform.
std::vector<bool> always_alike(const Observation& seen) {
  std::vector<bool> out(seen.values.size(), false);
  for (std::size_t i = 0; i < seen.list->sources().size(); ++i)
    for (std::size_t d = 0; d < seen.of(i).size(); ++d)
      out[seen.list->offsets()[i] + d] = seen.list->sources()[i].kind == Kind::Bool ||
                                         seen.mark(i, d) == Mark::Static ||
                                         seen.mark(i, d) == Mark::Uniform;
  return out;
}

}  // namespace

void RecordedInputs::add(const RankRecord& rank, const RecordedCall& call) {
  const Consistency consistency =
      call.key.consistency.value_or(call.own_config.value_or(rank.header.config).consistency);
  share_sizes_only_ |= consistency == Consistency::SharedSizes;
  if (agreement_of_.try_emplace(call.frame, call.agreement).first->second != call.agreement)
    frame_in_two_agreements_ = call.frame;
  std::vector<Place>& seen = seen_[rank.header.rank.value];
  if (call.rank_status.local_error) {
    seen.push_back({});
    return;
  }
  Observation own = call.observation;
  own.orders.clear();  // a scenario made from a record has none
  const auto [place, fresh] = known_.try_emplace(digest_in(call.frame, own));
  if (fresh) {
    const auto [at, first] = structure_of_.try_emplace(
        {call.frame, structure_digest(own)}, static_cast<std::uint32_t>(structures_.size()));
    if (first) structures_.push_back({.frame = call.frame, .inputs = {}, .times = {}});
    Structure& structure = structures_[at->second];
    place->second = {at->second, static_cast<std::uint32_t>(structure.inputs.size())};
    structure.inputs.push_back(std::move(own));
    structure.times.push_back(0);
  }
  ++structures_[place->second.structure].times[place->second.input];
  seen.push_back(place->second);
}

/// Builds the calls of the generator made from a record.
class RecordedInputs::Calls {
 public:
  explicit Calls(const RecordedInputs& inputs) : inputs_(inputs) {
    for (const Structure& structure : inputs.structures_)
      held_.push_back(std::make_shared<const std::vector<Observation>>(structure.inputs));
  }

  /// Adds a call in which the ranks draw. `seen`: the inputs of all recorded ranks. Adds nothing
  /// and returns false unless they have no fields, one frame, one list of sources, and equal values
  /// where always_alike().
  bool add_drawn(const std::vector<Place>& seen) {
    const std::uint32_t s = seen.front().structure;
    const auto differs = [&](const Place& p) {
      return p.structure != s || !input(p).fields.empty();  // a call with fields is not drawn
    };
    if (std::ranges::any_of(seen, differs)) return false;
    const Observation& first = input(seen.front());
    std::vector<bool> alike(first.values.size(), seen.size() > 1);
    for (const Place& place : seen) {
      const Observation& other = input(place);
      const std::vector<bool> always = always_alike(other);
      for (std::size_t i = 0; i < alike.size(); ++i) {
        const bool same = other.values[i] == first.values[i];
        if (!same && always[i]) return false;
        alike[i] = (alike[i] && same) || always[i];
      }
    }
    for (std::size_t i = 0; i < alike.size(); ++i)  // again: a value may be marked on one rank only
      for (const Place& place : seen)
        if (alike[i] && input(place).values[i] != first.values[i]) return false;
    add(kind_of(s, alike, first));
    return true;
  }

  /// Adds any other call. A virtual rank has the inputs of the recorded rank whose in_place_of()
  /// contains it.
  void add_as_recorded(std::shared_ptr<const ScenarioCall> call) {
    GeneratedCall made;
    made.frame = call->groups.empty() ? std::string() : call->groups.front().frame;
    made.as_is = std::move(call);
    out_.kinds.push_back(std::move(made));
    add(static_cast<std::uint32_t>(out_.kinds.size() - 1));
  }

  [[nodiscard]] const Observation& input(const Place& place) const {
    return (*held_[place.structure])[place.input];
  }
  Generator take(std::uint64_t seed) {
    out_.seed = seed;
    return std::move(out_);
  }

 private:
  using Values = std::vector<std::int64_t>;
  /// Calls of one structure, by their values where `alike` is true: their ranks draw from the
  /// inputs with these values.
  using Parts = std::map<Values, std::uint32_t>;  // indices in Generator::kinds

  static Values part_of(const Observation& seen, const std::vector<bool>& alike) {
    Values out;
    for (std::size_t i = 0; i < alike.size(); ++i)
      if (alike[i]) out.push_back(seen.values[i]);
    return out;
  }

  void add(std::uint32_t kind) { out_.order.push_back(kind); }

  std::uint32_t kind_of(std::uint32_t s, const std::vector<bool>& alike, const Observation& first) {
    const auto [parts, fresh] = kinds_.try_emplace({s, alike});
    if (fresh) parts->second = parts_of(s, alike);
    return parts->second.at(part_of(first, alike));
  }

  Parts parts_of(std::uint32_t s, const std::vector<bool>& alike) {
    std::map<Values, InputPool> pools;
    const std::vector<Observation>& all = *held_[s];
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      const auto [at, fresh] = pools.try_emplace(part_of(all[i], alike));
      InputPool& pool = at->second;
      if (fresh) pool.least = pool.greatest = all[i];
      pool.distinct.push_back(i);
      pool.recorded.insert(pool.recorded.end(), inputs_.structures_[s].times[i], i);
      for (std::size_t v = 0; v < all[i].values.size(); ++v) {
        pool.least.values[v] = std::min(pool.least.values[v], all[i].values[v]);
        pool.greatest.values[v] = std::max(pool.greatest.values[v], all[i].values[v]);
      }
    }
    Parts out;
    for (auto& [values, pool] : pools) {
      pool.inputs = held_[s];
      GeneratedCall made;
      made.frame = inputs_.structures_[s].frame;
      made.like = scenario_values(all[pool.distinct.front()]);
      made.pool = std::make_shared<const InputPool>(std::move(pool));
      out[values] = static_cast<std::uint32_t>(out_.kinds.size());
      out_.kinds.push_back(std::move(made));
    }
    return out;
  }

  const RecordedInputs& inputs_;
  std::vector<std::shared_ptr<const std::vector<Observation>>> held_;  // by structure
  std::map<std::pair<std::uint32_t, std::vector<bool>>, Parts> kinds_;
  Generator out_;
};

Result<RecordedInputs::Drawn> RecordedInputs::draw(const std::vector<RankRecord>& ranks,
                                                   int world_size, std::uint64_t seed) const {
  if (share_sizes_only_)
    return bad_input(
        "ranks of this record share sizes only and compile each for itself; --ranks takes records "
        "whose ranks compile together.");
  if (!frame_in_two_agreements_.empty())
    return bad_input(
        fmt::format("two agreements of this record have a frame {}; give frames of "
                    "one name to one agreement.",
                    frame_in_two_agreements_));
  const JointCalls joint(ranks);
  for (std::size_t c = 0; c < joint.size(); ++c)
    if (joint.members(c).size() != static_cast<std::int64_t>(ranks.size()))
      return bad_input(
          "calls of this record are of groups of ranks; --ranks takes records whose calls are all "
          "of one group of all ranks.");
  Drawn out;
  Calls calls(*this);
  for (std::size_t c = 0; c < joint.size(); ++c) {
    std::vector<Place> seen;
    RankSet by;
    ScenarioCall call;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto own = joint.of(c, r);
      if (!own) continue;
      const Place& place = seen_.at(static_cast<std::int32_t>(r)).at(*own);
      seen.push_back(place);
      if (place.structure == UINT32_MAX) continue;
      const RankSet self = in_place_of(r, ranks.size(), world_size);
      if (self.empty()) continue;
      const Observation& input = calls.input(place);
      call.groups.push_back(
          {self, structures_[place.structure].frame, scenario_values(input), input.fields});
      call.present.insert(self);
    }
    if (std::ranges::any_of(seen, [](const Place& p) { return p.structure == UINT32_MAX; })) {
      ++out.left_out;
    } else if (seen.size() < ranks.size() || !calls.add_drawn(seen)) {
      ++out.as_recorded;
      calls.add_as_recorded(std::make_shared<const ScenarioCall>(std::move(call)));
    }
  }
  out.inputs = known_.size();
  out.scenario.world_size = world_size;
  out.scenario.config = ranks.front().header.config;
  for (const RankRecord& rank : ranks)
    out.scenario.own_configs.insert(rank.own_configs.begin(), rank.own_configs.end());
  out.scenario.generator = calls.take(seed);
  return out;
}

}  // namespace lockstep::worker::simulator
