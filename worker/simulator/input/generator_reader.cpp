// Reads the generator section of a scenario.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::int64_t kMaxRepeat = 1'000'000;
constexpr std::size_t kMaxAxes = 8;

/// Returns `values` with the members of `over`, which replace those of the same name.
Json overlaid(const Json& values, const Json& over) {
  Json out = values;
  auto& members = std::get<Json::Object>(out.value);
  for (const auto& [source, value] : *over.as<Json::Object>()) {
    const auto same =
        std::find_if(members.begin(), members.end(),
                     [&name = source](const auto& member) { return member.first == name; });
    if (same == members.end())
      members.emplace_back(source, value);
    else
      same->second = value;
  }
  return out;
}

}  // namespace

bool ScenarioReader::read_generator(const Json& json, const JsonPath& path, Generator& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"seed", "ranks_per_host", "grid", "calls", "absent"}))
    return false;
  std::int64_t seed = 0;
  if (const Json* given = json.find("seed"))
    if (!integer(*given, path.at("seed"), 0, INT64_MAX, seed)) return false;
  if (const Json* hosts = json.find("ranks_per_host"))
    if (!integer(*hosts, path.at("ranks_per_host"), 1, kMaxWorldSize, ranks_per_host_))
      return false;
  if (const Json* grid = json.find("grid"))
    if (!read_grid(*grid, path.at("grid"))) return false;
  const Json* calls = required(json, path, "calls");
  const JsonPath calls_path = path.at("calls");
  if (calls == nullptr || array(*calls, calls_path) == nullptr) return false;
  out.seed = options_.seed.value_or(static_cast<std::uint64_t>(seed));
  const auto& list = *calls->as<Json::Array>();
  out.blocks.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_block(list[i], calls_path.at(i), out.blocks[i])) return false;
  const Json* absent = json.find("absent");
  return absent == nullptr || read_absences(*absent, path.at("absent"), out);
}

// Reads [{"axis": "pipeline", "size": 4}, …]: neighbours differ in the last axis.
bool ScenarioReader::read_grid(const Json& json, const JsonPath& path) {
  if (array(json, path) == nullptr) return false;
  const auto& list = *json.as<Json::Array>();
  if (list.empty() || list.size() > kMaxAxes)
    return fail(path, fmt::format("{} axes, where 1 to {} are possible", list.size(), kMaxAxes));
  grid_.emplace_back("data", Sharing::Axis{});
  std::int64_t product = 1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPath at = path.at(i);
    if (object(list[i], at) == nullptr || !known_keys(list[i], at, {"axis", "size"})) return false;
    const Json *axis = required(list[i], at, "axis"), *size = required(list[i], at, "size");
    std::string name;
    std::int64_t length = 0;
    if (axis == nullptr || size == nullptr || !text(*axis, at.at("axis"), name) ||
        !integer(*size, at.at("size"), 1, kMaxWorldSize, length))
      return false;
    for (const auto& other : grid_)
      if (other.first == name)
        return fail(at.at("axis"), name == "data"
                                       ? "\"data\" is what the other axes leave of the world"
                                       : "this axis occurs twice");
    product = std::min<std::int64_t>(product * length, INT32_MAX);
    grid_.emplace_back(name, Sharing::Axis{1, length});
  }
  if (world_size_ % product != 0)
    return fail(path, fmt::format("the axes make {} ranks, of which a world of {} is no multiple",
                                  product, world_size_));
  grid_[0].second = {product, world_size_ / product};
  for (std::size_t i = grid_.size() - 1; i > 1; --i)
    grid_[i - 1].second.stride = grid_[i].second.stride * grid_[i].second.size;
  return true;
}

bool ScenarioReader::read_block(const Json& json, const JsonPath& path, Block& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"frame", "repeat", "values", "instead"}))
    return false;
  const Json* frame = required(json, path, "frame");
  if (frame == nullptr || !text(*frame, path.at("frame"), out.call.frame)) return false;
  if (const Json* repeat = json.find("repeat"))
    if (!integer(*repeat, path.at("repeat"), 0, kMaxRepeat, out.repeat)) return false;
  const Json* values = required(json, path, "values");
  if (values == nullptr || !read_generated(*values, path.at("values"), out.call)) return false;
  const Json* instead = json.find("instead");
  if (instead == nullptr) return true;
  const JsonPath at = path.at("instead");
  if (array(*instead, at) == nullptr) return false;
  const auto& list = *instead->as<Json::Array>();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_variant(list[i], at.at(i), *values, out, out.variants.emplace_back())) return false;
  return true;
}

// A variant that names a frame gives all its values; without a frame, missing values are the
// block's.
bool ScenarioReader::read_variant(const Json& json, const JsonPath& path, const Json& values,
                                  const Block& block, Variant& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"first", "every", "probability", "frame", "values"}) ||
      !read_when(json, path, out))
    return false;
  out.call.frame = block.call.frame;
  const Json *frame = json.find("frame"), *own = required(json, path, "values");
  if (frame != nullptr && !text(*frame, path.at("frame"), out.call.frame)) return false;
  const JsonPath at = path.at("values");
  if (own == nullptr || object(*own, at) == nullptr) return false;
  return read_generated(frame != nullptr ? *own : overlaid(values, *own), at, out.call);
}

bool ScenarioReader::read_when(const Json& json, const JsonPath& path, Variant& out) {
  const Json *first = json.find("first"), *every = json.find("every"),
             *chance = json.find("probability");
  if ((first != nullptr) + (every != nullptr) + (chance != nullptr) != 1)
    return fail(path, "one of first, every, probability says when this is called instead");
  if (first != nullptr) {
    out.when = Variant::When::First;
    return integer(*first, path.at("first"), 1, kMaxRepeat, out.count);
  }
  if (every != nullptr) {
    out.when = Variant::When::Every;
    return integer(*every, path.at("every"), 1, kMaxRepeat, out.count);
  }
  out.when = Variant::When::Chance;
  double probability = 0;
  if (!real(*chance, path.at("probability"), 0, 1, probability)) return false;
  out.below = static_cast<std::uint64_t>(probability * 0x1p53);
  return true;
}

// Takes the draws out of the values and leaves zeros, so that the rest is read like the values of
// any call.
bool ScenarioReader::read_generated(Json values, const JsonPath& path, GeneratedCall& out) {
  auto* sources = std::get_if<Json::Object>(&values.value);
  if (sources == nullptr) return object(values, path) != nullptr;
  const auto take = [&](Json& json, const JsonPath& at, Draw draw) {
    if (json.as<Json::Object>() == nullptr) return true;
    if (!read_draw(json, at, std::move(draw), out)) return false;
    json.value = std::int64_t{0};
    return true;
  };
  for (auto& [source, value] : *sources) {
    auto* members = std::get_if<Json::Object>(&value.value);
    if (members == nullptr) continue;
    const JsonPath at = path.at(source);
    for (auto& [key, content] : *members) {
      const JsonPath there = at.at(key);
      Draw draw;
      draw.source = source;
      if (key == "int" && !take(content, there, draw)) return false;
      auto* sizes = std::get_if<Json::Array>(&content.value);
      for (std::size_t d = 0; key == "tensor" && sizes != nullptr && d < sizes->size(); ++d) {
        draw.dim = d;
        if (!take((*sizes)[d], there.at(d), draw)) return false;
      }
    }
  }
  return read_values(values, path, out.like);
}

bool ScenarioReader::read_absences(const Json& json, const JsonPath& path, Generator& out) {
  if (array(json, path) == nullptr) return false;
  const auto& list = *json.as<Json::Array>();
  const auto count = static_cast<std::int64_t>(out.count());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPath at = path.at(i);
    if (object(list[i], at) == nullptr || !known_keys(list[i], at, {"call", "ranks"})) return false;
    const Json *call = required(list[i], at, "call"), *who = required(list[i], at, "ranks");
    std::int64_t number = 0;
    RankSet away;
    if (call == nullptr || who == nullptr || !integer(*call, at.at("call"), 0, INT64_MAX, number) ||
        !ranks(*who, at.at("ranks"), away))
      return false;
    if (number >= count)
      return fail(at.at("call"), fmt::format("the generator makes {} calls", count));
    out.absent[static_cast<std::size_t>(number)].insert(away);
  }
  return true;
}

}  // namespace lockstep::worker::simulator
