// Reads draws: {"uniform": [1, 64], "per": "host"} and the like.
#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/simulator/draw/lengths_file.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::array<std::string_view, 9> kKinds{
    "uniform", "choice", "normal", "lognormal", "zipf", "histogram", "lengths", "share", "batches"};
constexpr double kLeastMoment = 1e-6;
constexpr double kMaxSigma = 16, kMaxExponent = 16;

}  // namespace

bool ScenarioReader::read_draw(const Json& json, const JsonPath& path, Draw draw,
                               GeneratedCall& out) {
  if (!known_keys(json, path,
                  {"uniform", "choice", "normal", "lognormal", "zipf", "histogram", "lengths",
                   "share", "batches", "per", "min", "max"}))
    return false;
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : kKinds)
    if (json.find(kind) != nullptr) kinds.push_back(kind);
  if (kinds.size() != 1)
    return fail(path, fmt::format("a draw has one of {}; this one has {}", fmt::join(kKinds, ", "),
                                  kinds.empty() ? std::string("none")
                                                : fmt::to_string(fmt::join(kinds, " and "))));
  const Json& content = *json.find(kinds[0]);
  const JsonPath at = path.at(kinds[0]);
  if (const Json* per = json.find("per");
      !read_sharing(per != nullptr ? *per : Json{std::string("rank")}, path.at("per"), draw.per))
    return false;
  const std::int64_t least = draw.dim ? 0 : INT64_MIN;
  Bounds bounds{least, INT64_MAX};
  const bool bounded = json.find("min") != nullptr || json.find("max") != nullptr;
  if (bounded && (kinds[0] == "share" || kinds[0] == "batches"))
    return fail(path, fmt::format("min and max do not go with {}", kinds[0]));
  if (!read_bounds(json, path, bounds)) return false;
  if (kinds[0] == "share") {
    if (!integer(content, at, 0, INT64_MAX, draw.from.emplace<Share>().total)) return false;
  } else if (kinds[0] == "batches") {
    if (!read_batches(content, at, draw.from.emplace<Batches>())) return false;
  } else {
    Distribution drawn;
    if (!read_distribution(content, kinds[0], at, least, bounds, drawn)) return false;
    draw.from = bounded ? drawn.clamped(bounds) : std::move(drawn);
  }
  out.draws.push_back(std::move(draw));
  return true;
}

bool ScenarioReader::read_bounds(const Json& json, const JsonPath& path, Bounds& out) {
  const std::int64_t least = out.low;
  if (const Json* low = json.find("min"))
    if (!integer(*low, path.at("min"), least, INT64_MAX, out.low)) return false;
  if (const Json* high = json.find("max"))
    if (!integer(*high, path.at("max"), least, INT64_MAX, out.high)) return false;
  return out.low <= out.high ||
         fail(path.at("min"), fmt::format("{} is above max, which is {}", out.low, out.high));
}

bool ScenarioReader::read_sharing(const Json& json, const JsonPath& path, Sharing& out) {
  if (const auto* names = json.as<Json::Array>()) return read_axes(*names, path, out);
  std::int64_t together = 1;  // number of neighbours with one value
  if (json.as<Json::Object>() != nullptr) {
    if (!known_keys(json, path, {"ranks"})) return false;
    const Json* ranks = required(json, path, "ranks");
    if (ranks == nullptr || !integer(*ranks, path.at("ranks"), 1, kMaxWorldSize, together))
      return false;
  } else {
    constexpr std::string_view kPer[] = {"rank", "call", "host", "global"};
    std::size_t number = 0;
    if (json.as<std::string>() == nullptr)
      return expect_kind(json, path, false, "a string, {\"ranks\": N} or a list of axes");
    if (!choice(json, path, kPer, number)) return false;
    out.every_call = number != 3;
    if (number == 1 || number == 3) return true;
    if (number == 2 && ranks_per_host_ == 0)
      return fail(path, "\"host\" needs the key ranks_per_host of the generator");
    if (number == 2) together = ranks_per_host_;
  }
  out.axes = {{.stride = together, .size = (world_size_ + together - 1) / together}};
  return true;
}

bool ScenarioReader::read_axes(const Json::Array& names, const JsonPath& path, Sharing& out) {
  if (grid_.empty()) return fail(path, "axes need the key grid of the generator");
  std::vector<std::string_view> known;
  for (const auto& axis : grid_) known.push_back(axis.first);
  std::vector<bool> kept(grid_.size(), false);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t axis = 0;
    if (!choice(names[i], path.at(i), known, axis)) return false;
    if (kept[axis]) return fail(path.at(i), "this axis occurs twice");
    kept[axis] = true;
  }
  for (std::size_t i = 0; i < grid_.size(); ++i)
    if (kept[i]) out.axes.push_back(grid_[i].second);
  return true;
}

bool ScenarioReader::read_distribution(const Json& json, std::string_view kind,
                                       const JsonPath& path, std::int64_t least, Bounds bounds,
                                       Distribution& out) {
  if (kind == "normal" || kind == "lognormal") return read_moments(json, kind, path, bounds, out);
  if (kind == "zipf") return read_zipf(json, path, out);
  if (kind == "histogram") return read_histogram(json, path, least, out);
  if (kind == "lengths") return read_lengths(json, path, out);
  std::vector<std::int64_t> values;
  if (!integer_list(json, path, least, values)) return false;
  if (kind == "choice") {
    if (values.empty()) return fail(path, "there is nothing to choose from");
    out = Distribution::choice(std::move(values));
    return true;
  }
  if (values.size() != 2) return fail(path, "expected the least and the greatest value");
  if (values[0] > values[1]) return fail(path, "the least value is above the greatest");
  out = Distribution::uniform(values[0], values[1]);
  return true;
}

bool ScenarioReader::read_moments(const Json& json, std::string_view kind, const JsonPath& path,
                                  Bounds bounds, Distribution& out) {
  const bool normal = kind == "normal";
  const std::string_view middle = normal ? "mean" : "median",
                         width = normal ? "deviation" : "sigma";
  if (object(json, path) == nullptr || !known_keys(json, path, {middle, width})) return false;
  const Json *first = required(json, path, middle), *second = required(json, path, width);
  double a = 0, b = 0;
  if (first == nullptr || second == nullptr ||
      !real(*first, path.at(middle), normal ? -kMaxMoment : kLeastMoment, kMaxMoment, a) ||
      !real(*second, path.at(width), kLeastMoment, normal ? kMaxMoment : kMaxSigma, b))
    return false;
  auto made = normal ? Distribution::normal(a, b, bounds) : Distribution::lognormal(a, b, bounds);
  if (!made)
    return fail(path, fmt::format("more than {} different values; give min and max, or use a "
                                  "smaller {}",
                                  kMaxTable, width));
  out = *std::move(made);
  return true;
}

bool ScenarioReader::read_zipf(const Json& json, const JsonPath& path, Distribution& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"exponent", "count", "total"}))
    return false;
  const Json *exponent = required(json, path, "exponent"), *count = required(json, path, "count");
  double power = 0;
  std::int64_t kinds = 0, total = 0;
  if (exponent == nullptr || count == nullptr ||
      !real(*exponent, path.at("exponent"), 0, kMaxExponent, power) ||
      !integer(*count, path.at("count"), 1, kMaxTable, kinds))
    return false;
  const Json* items = json.find("total");
  if (items != nullptr && !integer(*items, path.at("total"), 0, std::int64_t{1} << 53, total))
    return false;
  out = items == nullptr ? Distribution::zipf(power, kinds)
                         : Distribution::zipf_frequency(power, kinds, total);
  return true;
}

bool ScenarioReader::read_histogram(const Json& json, const JsonPath& path, std::int64_t least,
                                    Distribution& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"values", "weights"})) return false;
  const Json *values = required(json, path, "values"), *weights = required(json, path, "weights");
  std::vector<std::int64_t> value, weight;
  const JsonPath at = path.at("weights");
  if (values == nullptr || weights == nullptr ||
      !integer_list(*values, path.at("values"), least, value) ||
      !integer_list(*weights, at, 0, weight))
    return false;
  if (value.size() != weight.size())
    return fail(at, fmt::format("{} weights for {} values", weight.size(), value.size()));
  std::vector<Bin> bins;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (weight[i] > INT64_MAX - sum) return fail(at, "the sum of the weights does not fit 64 bits");
    sum += weight[i];
    bins.push_back({value[i], weight[i]});
  }
  if (sum == 0) return fail(at, "no value has a weight above 0");
  out = Distribution::histogram(bins);
  return true;
}

std::optional<std::string> ScenarioReader::beside(const JsonPath& path, const std::string& name) {
  const std::filesystem::path relative(name);
  if (relative.empty() || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end())
    fail(path,
         fmt::format("{} is not a file beside the scenario or below its folder", in_quotes(name)));
  else if (!options_.folder)
    fail(path, "files are read only where the scenario is a file itself");
  else
    return (std::filesystem::path(*options_.folder) / relative).string();
  return std::nullopt;
}

bool ScenarioReader::read_lengths(const Json& json, const JsonPath& path, Distribution& out) {
  std::string name;
  if (!text(json, path, name)) return false;
  const auto file = beside(path, name);
  if (!file) return false;
  const auto bins = read_lengths_file(*file);
  if (!bins) {
    std::string what = bins.error().message;
    what.pop_back();  // its full stop
    return fail(path, what);
  }
  out = Distribution::histogram(*bins);
  return true;
}

bool ScenarioReader::read_batches(const Json& json, const JsonPath& path, Batches& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"total", "batch"})) return false;
  const Json *total = required(json, path, "total"), *batch = required(json, path, "batch");
  return total != nullptr && batch != nullptr &&
         integer(*total, path.at("total"), 0, INT64_MAX, out.total) &&
         integer(*batch, path.at("batch"), 1, INT64_MAX, out.batch);
}

}  // namespace lockstep::worker::simulator
