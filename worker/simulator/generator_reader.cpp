// Reads the generator section of a scenario: calls with sizes drawn per rank or per call, repeated,
// with ranks that stay away.

#include <fmt/format.h>

#include <lockstep/worker/simulator/scenario_reader.h>

namespace lockstep::worker::simulator {

namespace {

constexpr std::int64_t kMaxRepeat = 1'000'000;

}  // namespace

bool ScenarioReader::read_generator(const Json& json, const JsonPath& path, Generator& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"seed", "calls", "absent"}))
    return false;
  std::int64_t seed = 0;
  if (const Json* given = json.find("seed"))
    if (!integer(*given, path.at("seed"), 0, INT64_MAX, seed)) return false;
  out.seed = options_.seed.value_or(static_cast<std::uint64_t>(seed));
  const Json* calls = required(json, path, "calls");
  const JsonPath calls_path = path.at("calls");
  if (calls == nullptr || array(*calls, calls_path) == nullptr) return false;
  const auto& list = *calls->as<Json::Array>();
  out.calls.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_generated(list[i], calls_path.at(i), out.calls[i])) return false;
  const Json* absent = json.find("absent");
  return absent == nullptr || read_faults(*absent, path.at("absent"), out);
}

bool ScenarioReader::read_generated(const Json& json, const JsonPath& path, GeneratedCall& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"frame", "repeat", "values"}))
    return false;
  const Json* frame = required(json, path, "frame");
  if (frame == nullptr || !text(*frame, path.at("frame"), out.frame)) return false;
  if (const Json* repeat = json.find("repeat"))
    if (!integer(*repeat, path.at("repeat"), 0, kMaxRepeat, out.repeat)) return false;
  const Json* values = required(json, path, "values");
  if (values == nullptr) return false;
  Json plain = *values;
  const JsonPath values_path = path.at("values");
  return read_draws(plain, values_path, out) && read_values(plain, values_path, out.like);
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

bool ScenarioReader::read_faults(const Json& json, const JsonPath& path, Generator& out) {
  if (array(json, path) == nullptr) return false;
  const auto& list = *json.as<Json::Array>();
  const std::size_t count = out.count();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPath at = path.at(i);
    if (object(list[i], at) == nullptr || !known_keys(list[i], at, {"call", "ranks"})) return false;
    const Json *call = required(list[i], at, "call"), *who = required(list[i], at, "ranks");
    std::int64_t number = 0;
    RankSet away;
    if (call == nullptr || who == nullptr || !integer(*call, at.at("call"), 0, INT64_MAX, number) ||
        !ranks(*who, at.at("ranks"), away))
      return false;
    if (static_cast<std::size_t>(number) >= count)
      return fail(at.at("call"), fmt::format("the generator makes {} calls", count));
    out.absent[static_cast<std::size_t>(number)].insert(away);
  }
  return true;
}

}  // namespace lockstep::worker::simulator
