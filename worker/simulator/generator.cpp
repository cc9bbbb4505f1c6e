// The generator section of a scenario: calls with sizes drawn per rank or per call, repeated, with
// ranks that stay away. Every draw is a function of seed, call, place and rank, so the same seed
// gives the same calls, and a rank's sizes do not depend on the size of the world.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/simulator/scenario_reader.h>

namespace lockstep::worker::simulator {

/// A size or int that is drawn.
struct ScenarioReader::Draw {
  std::string source;
  std::optional<std::size_t> dim;     // nullopt: an int
  std::int64_t low = 0, high = 0;     // uniform
  std::vector<std::int64_t> choices;  // where not empty
  bool per_rank = true;               // else the same on all ranks
};

struct ScenarioReader::GeneratedCall {
  ScenarioGroup like;  // values with the draws' lowest in their places
  std::vector<Draw> draws;
  std::int64_t repeat = 1;
};

namespace {

constexpr std::int64_t kMaxRepeat = 1'000'000;
/// Draws of a whole scenario: what a run within seconds and a few gigabytes can bear.
constexpr std::uint64_t kMaxDraws = 20'000'000;

/// splitmix64 of the seed and of where the draw stands.
std::uint64_t random_at(std::uint64_t seed, std::initializer_list<std::uint64_t> place) {
  std::uint64_t z = seed;
  for (const std::uint64_t part : place) {
    z += 0x9E3779B97F4A7C15ull + part;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace

bool ScenarioReader::read_generator(const Json& json, const JsonPath& path,
                                    std::vector<ScenarioCall>& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"seed", "calls", "absent"}))
    return false;
  std::int64_t seed = 0;
  if (const Json* given = json.find("seed"))
    if (!integer(*given, path.at("seed"), 0, INT64_MAX, seed)) return false;
  const Json* calls = required(json, path, "calls");
  const JsonPath calls_path = path.at("calls");
  if (calls == nullptr || array(*calls, calls_path) == nullptr) return false;
  const auto& list = *calls->as<Json::Array>();
  std::vector<GeneratedCall> generated(list.size());
  std::uint64_t draws = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    GeneratedCall& call = generated[i];
    if (!read_generated(list[i], calls_path.at(i), call)) return false;
    const bool apart = std::any_of(call.draws.begin(), call.draws.end(),
                                   [](const Draw& draw) { return draw.per_rank; });
    draws += static_cast<std::uint64_t>(call.repeat) *
             (apart ? static_cast<std::uint64_t>(world_size_) * call.draws.size() : 1);
    if (draws > kMaxDraws)
      return fail(calls_path.at(i), fmt::format("more than {} draws up to here; use fewer ranks, "
                                                "fewer repeats, or \"per\": \"call\"",
                                                kMaxDraws));
  }
  std::vector<ScenarioCall> made;
  for (const GeneratedCall& call : generated)
    for (std::int64_t i = 0; i < call.repeat; ++i)
      made.push_back(
          generate(call, options_.seed.value_or(static_cast<std::uint64_t>(seed)), made.size()));
  if (const Json* absent = json.find("absent"))
    if (!read_faults(*absent, path.at("absent"), made)) return false;
  std::move(made.begin(), made.end(), std::back_inserter(out));
  return true;
}

bool ScenarioReader::read_generated(const Json& json, const JsonPath& path, GeneratedCall& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"frame", "repeat", "values"}))
    return false;
  const Json* frame = required(json, path, "frame");
  if (frame == nullptr || !text(*frame, path.at("frame"), out.like.frame)) return false;
  if (const Json* repeat = json.find("repeat"))
    if (!integer(*repeat, path.at("repeat"), 0, kMaxRepeat, out.repeat)) return false;
  const Json* values = required(json, path, "values");
  if (values == nullptr) return false;
  Json plain = *values;
  const JsonPath values_path = path.at("values");
  return read_draws(plain, values_path, out) && read_values(plain, values_path, out.like.values);
}

// Takes the draws out of the values and puts their lowest in their places, so that what is left is
// read as the values of any call.
bool ScenarioReader::read_draws(Json& values, const JsonPath& path, GeneratedCall& out) {
  auto* sources = std::get_if<Json::Object>(&values.value);
  if (sources == nullptr) return object(values, path) != nullptr;
  for (auto& [source, value] : *sources) {
    auto* members = std::get_if<Json::Object>(&value.value);
    if (members == nullptr) continue;
    const JsonPath at = path.at(source);
    for (auto& [key, content] : *members) {
      const JsonPath there = at.at(key);
      if (key == "int" && content.as<Json::Object>() != nullptr) {
        if (!read_draw(content, there, {.source = source, .dim = {}, .choices = {}}, out))
          return false;
      }
      auto* sizes = std::get_if<Json::Array>(&content.value);
      for (std::size_t d = 0; key == "tensor" && sizes != nullptr && d < sizes->size(); ++d)
        if ((*sizes)[d].as<Json::Object>() != nullptr &&
            !read_draw((*sizes)[d], there.at(d), {.source = source, .dim = d, .choices = {}}, out))
          return false;
    }
  }
  return true;
}

bool ScenarioReader::read_draw(Json& json, const JsonPath& path, Draw draw, GeneratedCall& out) {
  if (!known_keys(json, path, {"uniform", "choice", "per"})) return false;
  const Json *uniform = json.find("uniform"), *choices = json.find("choice");
  if ((uniform == nullptr) == (choices == nullptr))
    return fail(path, "a draw has one of uniform, choice");
  const std::string_view key = uniform != nullptr ? "uniform" : "choice";
  const Json& numbers = uniform != nullptr ? *uniform : *choices;
  const JsonPath at = path.at(key);
  if (array(numbers, at) == nullptr) return false;
  const auto& list = *numbers.as<Json::Array>();
  if (list.empty() || (uniform != nullptr && list.size() != 2))
    return fail(at, uniform != nullptr ? "expected the least and the greatest value"
                                       : "there is nothing to choose from");
  std::vector<std::int64_t> values(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!integer(list[i], at.at(i), draw.dim ? 0 : INT64_MIN, INT64_MAX, values[i])) return false;
  draw.low = values.front();
  draw.high = values.back();
  if (uniform != nullptr && draw.low > draw.high)
    return fail(at, "the least value is above the greatest");
  if (uniform == nullptr) draw.choices = std::move(values);
  if (const Json* per = json.find("per")) {
    constexpr std::string_view kPer[] = {"rank", "call"};
    std::size_t number = 0;
    if (!choice(*per, path.at("per"), kPer, number)) return false;
    draw.per_rank = number == 0;
  }
  json.value = draw.low;
  out.draws.push_back(std::move(draw));
  return true;
}

bool ScenarioReader::read_faults(const Json& json, const JsonPath& path,
                                 std::vector<ScenarioCall>& calls) {
  if (array(json, path) == nullptr) return false;
  const auto& list = *json.as<Json::Array>();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPath at = path.at(i);
    if (object(list[i], at) == nullptr || !known_keys(list[i], at, {"call", "ranks"})) return false;
    const Json *call = required(list[i], at, "call"), *who = required(list[i], at, "ranks");
    std::int64_t number = 0;
    RankSet away;
    if (call == nullptr || who == nullptr || !integer(*call, at.at("call"), 0, INT64_MAX, number) ||
        !ranks(*who, at.at("ranks"), away))
      return false;
    if (number >= static_cast<std::int64_t>(calls.size()))
      return fail(at.at("call"), fmt::format("the generator makes {} calls", calls.size()));
    ScenarioCall& from = calls[static_cast<std::size_t>(number)];
    from.present = from.present.minus(away);
    for (ScenarioGroup& group : from.groups) group.ranks = group.ranks.minus(away);
    std::erase_if(from.groups, [](const ScenarioGroup& group) { return group.ranks.empty(); });
  }
  return true;
}

ScenarioCall ScenarioReader::generate(const GeneratedCall& call, std::uint64_t seed,
                                      std::uint64_t number) const {
  const auto drawn = [&](std::size_t i, std::uint64_t rank) {
    const Draw& draw = call.draws[i];
    const std::uint64_t random =
        random_at(seed, {number, i, draw.per_rank ? rank + 1 : std::uint64_t{0}});
    if (!draw.choices.empty()) return draw.choices[random % draw.choices.size()];
    const std::uint64_t span =
        static_cast<std::uint64_t>(draw.high) - static_cast<std::uint64_t>(draw.low);
    const std::uint64_t offset = span == UINT64_MAX ? random : random % (span + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(draw.low) + offset);
  };
  const bool apart = std::any_of(call.draws.begin(), call.draws.end(),
                                 [](const Draw& draw) { return draw.per_rank; });
  std::map<std::vector<std::int64_t>, RankSet> alike;
  for (std::int32_t r = 0; r < (apart ? world_size_ : 1); ++r) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < call.draws.size(); ++i)
      values.push_back(drawn(i, static_cast<std::uint64_t>(r)));
    alike[values].insert(apart ? RankSet::of(Rank{r}) : RankSet::all(world_size_));
  }
  ScenarioCall out;
  out.frame = call.like.frame;
  out.present = RankSet::all(world_size_);
  for (auto& [values, ranks] : alike) {
    ScenarioGroup group = call.like;
    group.ranks = std::move(ranks);
    for (std::size_t i = 0; i < call.draws.size(); ++i) {
      ScenarioValue& value = group.values.at(call.draws[i].source);
      (call.draws[i].dim ? value.sizes[*call.draws[i].dim] : value.number) = values[i];
    }
    out.groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace lockstep::worker::simulator
