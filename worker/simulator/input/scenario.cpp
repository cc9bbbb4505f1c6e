#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/worker/simulator/input/call_lines.h>
#include <lockstep/worker/simulator/input/scenario.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

/// Names in the order of Consistency.
constexpr std::array<std::string_view, 3> kConsistencies{"same_graph", "same_collectives",
                                                         "shared_sizes"};

}  // namespace

Result<Scenario> ScenarioReader::read(const Json& root) {
  Scenario scenario;
  read_scenario(root, scenario);
  if (error_) return *error_;
  return scenario;
}

Result<Scenario> ScenarioReader::read(const Json& root, LineReader& lines,
                                      const std::string& path) {
  lines_ = &lines;
  path_ = path;
  return read(root);
}

Result<ScenarioCall> ScenarioReader::read_call_alone(const Json& json) {
  world_size_ = options_.world_size.value_or(1);
  ScenarioCall call;
  if (!read_call(json, {}, call)) return *error_;
  return call;
}

bool ScenarioReader::read_scenario(const Json& json, Scenario& out) {
  const JsonPath root;
  if (object(json, root) == nullptr) return false;
  const Json* format = required(json, root, "format");
  if (format == nullptr) return false;
  std::string version;
  if (!text(*format, root.at("format"), version)) return false;
  if (version != "lockstep.scenario/1")
    return fail(root.at("format"), fmt::format("{} is not a format this program reads, which is "
                                               "\"lockstep.scenario/1\"",
                                               in_quotes(version)));
  if (!known_keys(json, root,
                  {"format", "world_size", "config", "calls", "generator", "cost", "faults"}))
    return false;
  const Json* world = required(json, root, "world_size");
  std::int64_t size = 0;
  if (world == nullptr || !integer(*world, root.at("world_size"), 1, kMaxWorldSize, size))
    return false;
  const Json* generator = json.find("generator");
  if (generator == nullptr && (options_.world_size || options_.seed))
    return fail(root, "--ranks and --seed need a generator section, and this scenario has none");
  world_size_ = options_.world_size.value_or(static_cast<int>(size));
  out.world_size = world_size_;
  if (const Json* config = json.find("config"))
    if (!read_config(*config, root.at("config"), out.config)) return false;
  if (!read_calls(json, generator == nullptr, out.calls)) return false;
  if (generator != nullptr && !read_generator(*generator, root.at("generator"), out.generator))
    return false;
  if (lines_ != nullptr && !read_lines(out)) return false;
  const Json* cost = json.find("cost");
  if (cost != nullptr || options_.network) out.cost.emplace().seed = out.generator.seed;
  if (options_.network) out.cost->network = *options_.network;
  if (cost != nullptr &&
      (!read_cost(*cost, root.at("cost"), *out.cost) || !known_frames(*cost, root.at("cost"), out)))
    return false;
  const Json* faults = json.find("faults");
  return faults == nullptr || read_faults(*faults, root.at("faults"), out, out.faults.emplace());
}

bool ScenarioReader::read_calls(const Json& json, bool needed, std::vector<ScenarioCall>& out) {
  const JsonPath root, path = root.at("calls");
  const Json* calls = json.find("calls");
  if (lines_ != nullptr)
    return calls == nullptr || fail(path, "here every call stands on a line of its own, below");
  if (calls == nullptr) return !needed || required(json, root, "calls") != nullptr;
  if (array(*calls, path) == nullptr) return false;
  const auto& list = *calls->as<Json::Array>();
  out.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_call(list[i], path.at(i), out[i])) return false;
  return true;
}

bool ScenarioReader::read_lines(Scenario& out) {
  auto stored = std::make_shared<CallLines>(path_, world_size_);
  for (;;) {
    const auto line = lines_->next();
    if (line && !*line) break;
    const auto added = line ? stored->add(**line) : Result<void>(line.error());
    if (added) continue;
    error_ = added.error();
    return false;
  }
  out.stored = std::move(stored);
  return true;
}

bool ScenarioReader::read_config(const Json& json, const JsonPath& path, DecisionConfig& out) {
  if (object(json, path) == nullptr ||
      !known_keys(
          json, path,
          {"consistency", "automatic_dynamic", "assume_at_least_two", "recompile_limit", "settle"}))
    return false;
  if (const Json* v = json.find("consistency")) {
    std::size_t number = 0;
    if (!choice(*v, path.at("consistency"), kConsistencies, number)) return false;
    out.consistency = static_cast<Consistency>(number);
  }
  if (const Json* v = json.find("automatic_dynamic"))
    if (!boolean(*v, path.at("automatic_dynamic"), out.automatic_dynamic)) return false;
  if (const Json* v = json.find("assume_at_least_two"))
    if (!boolean(*v, path.at("assume_at_least_two"), out.assume_at_least_two)) return false;
  if (const Json* v = json.find("recompile_limit")) {
    std::int64_t limit = 0;
    if (!integer(*v, path.at("recompile_limit"), 1, 64, limit)) return false;
    out.recompile_limit = static_cast<int>(limit);
  }
  if (const Json* v = json.find("settle"))
    if (!boolean(*v, path.at("settle"), out.settle)) return false;
  return true;
}

bool ScenarioReader::read_call(const Json& json, const JsonPath& path, ScenarioCall& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"frame", "inputs"})) return false;
  if (const Json* frame = json.find("frame"))
    if (!text(*frame, path.at("frame"), out.frame.emplace())) return false;
  const Json* inputs = required(json, path, "inputs");
  const JsonPath inputs_path = path.at("inputs");
  if (inputs == nullptr || array(*inputs, inputs_path) == nullptr) return false;
  const auto& list = *inputs->as<Json::Array>();
  out.groups.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_group(list[i], inputs_path.at(i), out, out.groups[i])) return false;
  return disjoint(inputs_path, out);
}

bool ScenarioReader::disjoint(const JsonPath& inputs, ScenarioCall& call) {
  struct Piece {
    RankSet::Run run;
    std::size_t group;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < call.groups.size(); ++i)
    for (const auto& run : call.groups[i].ranks.runs()) pieces.push_back({run, i});
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.run < b.run; });
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && pieces[i].run.first <= pieces[i - 1].run.last) {
      const std::size_t later = std::max(pieces[i].group, pieces[i - 1].group);
      const std::size_t earlier = std::min(pieces[i].group, pieces[i - 1].group);
      const JsonPath group = inputs.at(later);
      return fail(group.at("ranks"), fmt::format("rank {} is in inputs[{}] of this call already",
                                                 pieces[i].run.first, earlier));
    }
    call.present.insert(pieces[i].run);
  }
  return true;
}

bool ScenarioReader::read_group(const Json& json, const JsonPath& path, const ScenarioCall& call,
                                ScenarioGroup& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"frame", "ranks", "values", "fields"}))
    return false;
  const Json* who = required(json, path, "ranks");
  if (who == nullptr || !ranks(*who, path.at("ranks"), out.ranks)) return false;
  if (const Json* frame = json.find("frame")) {
    if (!text(*frame, path.at("frame"), out.frame)) return false;
  } else if (call.frame) {
    out.frame = *call.frame;
  } else {
    return fail(path.at("frame"),
                "this key is missing here and on the call; one of them must name the frame");
  }
  const Json* values = required(json, path, "values");
  if (values == nullptr || !read_values(*values, path.at("values"), out.values)) return false;
  const Json* fields = json.find("fields");
  return fields == nullptr || read_user_fields(*fields, path.at("fields"), out);
}

std::shared_ptr<const ScenarioCall> Scenario::call(std::size_t index) const {
  // A held call lives as long as the scenario, so the pointer need not own it.
  if (index < calls.size()) return {std::shared_ptr<const void>(), &calls[index]};
  if (index < explicit_count()) return stored->call(index - calls.size());
  return std::make_shared<const ScenarioCall>(generator.call(index - explicit_count(), world_size));
}

Scenario expanded(const Scenario& scenario) {
  Scenario out{scenario.world_size, scenario.config, scenario.calls, {},
               scenario.cost,       scenario.faults};
  out.own_configs = scenario.own_configs;
  out.traces = scenario.traces;
  for (std::size_t i = out.calls.size(); i < scenario.count(); ++i)
    out.calls.push_back(*scenario.call(i));
  return out;
}

Result<Scenario> parse_scenario(std::string_view text, std::string_view name,
                                const ScenarioOptions& options) {
  auto json = parse_json(text, name);
  if (!json) return std::move(json).error();
  return ScenarioReader(name, options).read(*json);
}

static Result<Scenario> load_lines(const std::string& path, const ScenarioOptions& options) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  LineReader lines(*file);
  const auto first = lines.next();
  if (!first) return first.error();
  const std::string name = path + ":1";
  const auto json = parse_json_line(*first ? (*first)->text : std::string_view(), name);
  if (!json) return json.error();
  return ScenarioReader(name, options).read(*json, lines, path);
}

Result<Scenario> load_scenario(const std::string& path, const ScenarioOptions& options) {
  ScenarioOptions here = options;
  here.folder = std::filesystem::path(path).parent_path().string();
  if (path.ends_with(kLinesEnding)) return load_lines(path, here);
  auto text = read_file(path);
  if (!text) return std::move(text).error();
  return parse_scenario(*text, path, here);
}

}  // namespace lockstep::worker::simulator
