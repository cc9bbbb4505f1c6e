#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include <fmt/format.h>

#include <lockstep/worker/simulator/json_document.h>
#include <lockstep/worker/simulator/scenario.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::size_t kMaxDims = 16;
constexpr std::array<std::pair<std::string_view, Mark>, 4> kMarks{
    {{"dynamic", Mark::Dynamic},
     {"maybe_dynamic", Mark::MaybeDynamic},
     {"unbacked", Mark::Unbacked},
     {"static", Mark::Static}}};
constexpr std::array<std::pair<std::string_view, Consistency>, 3> kConsistencies{
    {{"same_graph", Consistency::SameGraph},
     {"same_collectives", Consistency::SameCollectives},
     {"shared_sizes", Consistency::SharedSizes}}};

/// Walks the tree. The first thing that is wrong is kept; from then on nothing is read any more.
class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Result<Scenario> read(const Json& root) {
    Scenario scenario;
    read_scenario(root, scenario);
    if (error_) return *error_;
    return scenario;
  }

 private:
  /// False, so that callers can `return fail(…)`.
  bool fail(const JsonPath& path, std::string_view what) {
    if (!error_) error_ = json_error(name_, path, what);
    return false;
  }

  bool expect_kind(const Json& json, const JsonPath& path, bool ok, std::string_view wanted) {
    return ok || fail(path, fmt::format("expected {}, found {}", wanted, json.kind()));
  }

  const Json::Object* object(const Json& json, const JsonPath& path) {
    const auto* out = json.as<Json::Object>();
    expect_kind(json, path, out != nullptr, "an object");
    return out;
  }
  const Json::Array* array(const Json& json, const JsonPath& path) {
    const auto* out = json.as<Json::Array>();
    expect_kind(json, path, out != nullptr, "a list");
    return out;
  }

  bool known_keys(const Json& json, const JsonPath& path,
                  std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : *json.as<Json::Object>())
      if (std::find(known.begin(), known.end(), key) == known.end())
        return fail(path.at(key),
                    fmt::format("unknown key; known here are {}", fmt::join(known, ", ")));
    return true;
  }

  const Json* required(const Json& json, const JsonPath& path, std::string_view key) {
    const Json* out = json.find(key);
    if (out == nullptr) fail(path.at(key), "this key is missing");
    return out;
  }

  bool integer(const Json& json, const JsonPath& path, std::int64_t low, std::int64_t high,
               std::int64_t& out) {
    const auto* number = json.as<std::int64_t>();
    if (!expect_kind(json, path, number != nullptr, "an integer")) return false;
    if (*number < low || *number > high)
      return fail(path,
                  high == INT64_MAX
                      ? fmt::format("{} is too small, the least is {}", *number, low)
                      : fmt::format("{} is out of range, which is {} to {}", *number, low, high));
    out = *number;
    return true;
  }

  bool boolean(const Json& json, const JsonPath& path, bool& out) {
    const auto* flag = json.as<bool>();
    if (!expect_kind(json, path, flag != nullptr, "true or false")) return false;
    out = *flag;
    return true;
  }

  bool integers(const Json& json, const JsonPath& path, std::vector<std::int64_t>& out) {
    const auto* list = array(json, path);
    if (list == nullptr) return false;
    if (list->size() > kMaxDims)
      return fail(path,
                  fmt::format("{} dims, where at most {} are possible", list->size(), kMaxDims));
    out.resize(list->size());
    for (std::size_t i = 0; i < list->size(); ++i)
      if (!integer((*list)[i], path.at(i), 0, INT64_MAX, out[i])) return false;
    return true;
  }

  template <class Table, class T>
  bool choice(const Json& json, const JsonPath& path, const Table& table, T& out) {
    const auto* text = json.as<std::string>();
    if (!expect_kind(json, path, text != nullptr, "a string")) return false;
    std::vector<std::string_view> names;
    for (const auto& [name, value] : table) {
      names.push_back(name);
      if (name != *text) continue;
      out = value;
      return true;
    }
    return fail(path, fmt::format("{} is not one of {}", quoted(*text), fmt::join(names, ", ")));
  }

  bool read_scenario(const Json& json, Scenario& out);
  bool read_config(const Json& json, const JsonPath& path, DecisionConfig& out);
  bool read_call(const Json& json, const JsonPath& path, ScenarioCall& out);
  bool read_group(const Json& json, const JsonPath& path, const ScenarioCall& call,
                  ScenarioGroup& out);
  bool read_value(const Json& json, const JsonPath& path, ScenarioValue& out);
  bool read_tensor(const Json& json, const JsonPath& path, ScenarioValue& out);
  bool read_marks(const Json& json, const JsonPath& path, ScenarioValue& out);
  bool disjoint(const JsonPath& inputs, ScenarioCall& call);

  std::string_view name_;
  int world_size_ = 1;
  std::optional<Status> error_;
};

bool Reader::read_scenario(const Json& json, Scenario& out) {
  const JsonPath root;
  if (object(json, root) == nullptr) return false;
  const Json* format = required(json, root, "format");
  if (format == nullptr) return false;
  const auto* text = format->as<std::string>();
  if (!expect_kind(*format, root.at("format"), text != nullptr, "a string")) return false;
  if (*text != "lockstep.scenario/1")
    return fail(root.at("format"), fmt::format("{} is not a format this program reads, which is "
                                               "\"lockstep.scenario/1\"",
                                               quoted(*text)));
  if (!known_keys(json, root, {"format", "world_size", "config", "calls"})) return false;
  const Json* world = required(json, root, "world_size");
  std::int64_t size = 0;
  if (world == nullptr || !integer(*world, root.at("world_size"), 1, kMaxWorldSize, size))
    return false;
  out.world_size = world_size_ = static_cast<int>(size);
  if (const Json* config = json.find("config"))
    if (!read_config(*config, root.at("config"), out.config)) return false;
  const Json* calls = required(json, root, "calls");
  const JsonPath path = root.at("calls");
  if (calls == nullptr || array(*calls, path) == nullptr) return false;
  const auto& list = *calls->as<Json::Array>();
  out.calls.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_call(list[i], path.at(i), out.calls[i])) return false;
  return true;
}

bool Reader::read_config(const Json& json, const JsonPath& path, DecisionConfig& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path,
                  {"consistency", "automatic_dynamic", "assume_at_least_two", "recompile_limit"}))
    return false;
  if (const Json* v = json.find("consistency"))
    if (!choice(*v, path.at("consistency"), kConsistencies, out.consistency)) return false;
  if (const Json* v = json.find("automatic_dynamic"))
    if (!boolean(*v, path.at("automatic_dynamic"), out.automatic_dynamic)) return false;
  if (const Json* v = json.find("assume_at_least_two"))
    if (!boolean(*v, path.at("assume_at_least_two"), out.assume_at_least_two)) return false;
  if (const Json* v = json.find("recompile_limit")) {
    std::int64_t limit = 0;
    if (!integer(*v, path.at("recompile_limit"), 1, 64, limit)) return false;
    out.recompile_limit = static_cast<int>(limit);
  }
  return true;
}

bool Reader::read_call(const Json& json, const JsonPath& path, ScenarioCall& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"frame", "inputs"})) return false;
  if (const Json* frame = json.find("frame")) {
    const auto* text = frame->as<std::string>();
    if (!expect_kind(*frame, path.at("frame"), text != nullptr, "a string")) return false;
    out.frame = *text;
  }
  const Json* inputs = required(json, path, "inputs");
  const JsonPath inputs_path = path.at("inputs");
  if (inputs == nullptr || array(*inputs, inputs_path) == nullptr) return false;
  const auto& list = *inputs->as<Json::Array>();
  out.groups.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_group(list[i], inputs_path.at(i), out, out.groups[i])) return false;
  return disjoint(inputs_path, out);
}

bool Reader::disjoint(const JsonPath& inputs, ScenarioCall& call) {
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

bool Reader::read_group(const Json& json, const JsonPath& path, const ScenarioCall& call,
                        ScenarioGroup& out) {
  if (object(json, path) == nullptr || !known_keys(json, path, {"frame", "ranks", "values"}))
    return false;
  const Json* ranks = required(json, path, "ranks");
  if (ranks == nullptr) return false;
  const auto* text = ranks->as<std::string>();
  if (!expect_kind(*ranks, path.at("ranks"), text != nullptr, "a string such as \"0-3,7\""))
    return false;
  std::string wrong;
  auto set = parse_ranks(*text, world_size_, wrong);
  if (!set) return fail(path.at("ranks"), wrong);
  out.ranks = *std::move(set);
  if (const Json* frame = json.find("frame")) {
    const auto* name = frame->as<std::string>();
    if (!expect_kind(*frame, path.at("frame"), name != nullptr, "a string")) return false;
    out.frame = *name;
  } else if (call.frame) {
    out.frame = *call.frame;
  } else {
    return fail(path.at("frame"),
                "this key is missing here and on the call; one of them must name the frame");
  }
  const Json* values = required(json, path, "values");
  const JsonPath values_path = path.at("values");
  if (values == nullptr || object(*values, values_path) == nullptr) return false;
  for (const auto& [source, value] : *values->as<Json::Object>()) {
    const JsonPath at = values_path.at(source);
    if (source.empty()) return fail(at, "a source has an empty name");
    if (!read_value(value, at, out.values[source])) return false;
  }
  return true;
}

bool Reader::read_value(const Json& json, const JsonPath& path, ScenarioValue& out) {
  if (object(json, path) == nullptr) return false;
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : {"tensor", "int", "float", "bool"})
    if (json.find(kind) != nullptr) kinds.push_back(kind);
  if (kinds.empty()) {
    if (!known_keys(json, path, {"tensor", "int", "float", "bool"})) return false;
    return fail(path, "a value has one of tensor, int, float, bool; this one has none");
  }
  if (kinds.size() > 1)
    return fail(path, fmt::format("a value has one of tensor, int, float, bool; this one has {}",
                                  fmt::join(kinds, " and ")));
  const Json& content = *json.find(kinds[0]);
  const JsonPath at = path.at(kinds[0]);
  if (kinds[0] == "tensor") return read_tensor(json, path, out);
  if (!known_keys(json, path, {kinds[0]})) return false;
  if (kinds[0] == "int") {
    out.kind = Kind::Int;
    return integer(content, at, INT64_MIN, INT64_MAX, out.number);
  }
  if (kinds[0] == "bool") {
    bool flag = false;
    if (!boolean(content, at, flag)) return false;
    out.kind = Kind::Bool;
    out.number = flag ? 1 : 0;
    return true;
  }
  out.kind = Kind::Float;
  if (const auto* i = content.as<std::int64_t>())
    out.real = static_cast<double>(*i);
  else if (const auto* huge = content.as<Json::HugeInteger>())
    out.real = huge->value;
  else if (const auto* real = content.as<double>())
    out.real = *real;
  else
    return expect_kind(content, at, false, "a number");
  return std::isfinite(out.real) || fail(at, "this number is not finite");
}

bool Reader::read_tensor(const Json& json, const JsonPath& path, ScenarioValue& out) {
  if (!known_keys(json, path, {"tensor", "dtype", "strides", "marks"})) return false;
  out.kind = Kind::Tensor;
  if (!integers(*json.find("tensor"), path.at("tensor"), out.sizes)) return false;
  if (const Json* dtype = json.find("dtype")) {
    const auto* text = dtype->as<std::string>();
    if (!expect_kind(*dtype, path.at("dtype"), text != nullptr, "a string")) return false;
    const auto known = dtype_from_name(*text);
    if (!known)
      return fail(path.at("dtype"),
                  fmt::format("{} is not one of bool, u8, i8, i16, i32, i64, f16, "
                              "bf16, f32, f64",
                              quoted(*text)));
    out.dtype = *known;
  }
  if (const Json* strides = json.find("strides")) {
    if (!integers(*strides, path.at("strides"), out.strides)) return false;
    if (out.strides.size() != out.sizes.size())
      return fail(path.at("strides"),
                  fmt::format("{} strides for {} dims", out.strides.size(), out.sizes.size()));
  }
  if (const Json* marks = json.find("marks")) return read_marks(*marks, path.at("marks"), out);
  return true;
}

bool Reader::read_marks(const Json& json, const JsonPath& path, ScenarioValue& out) {
  if (object(json, path) == nullptr) return false;
  for (const auto& [key, value] : *json.as<Json::Object>()) {
    const JsonPath at = path.at(key);
    std::size_t dim = 0;
    const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), dim);
    const bool decimal = status == std::errc{} && end == key.data() + key.size() &&
                         (key.size() == 1 || key[0] != '0');
    if (!decimal || dim >= out.sizes.size())
      return fail(at, out.sizes.empty()
                          ? std::string("a tensor of 0 dims has no dim to mark")
                          : fmt::format("{} is not a dim of this tensor, which are \"0\" to \"{}\"",
                                        quoted(key), out.sizes.size() - 1));
    out.marks.resize(out.sizes.size(), Mark::None);
    if (!choice(value, at, kMarks, out.marks[dim])) return false;
  }
  return true;
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, std::string_view name) {
  auto json = parse_json(text, name);
  if (!json) return std::move(json).error();
  return Reader(name).read(*json);
}

Result<Scenario> load_scenario(const std::string& path) {
  auto text = read_file(path);
  if (!text) return std::move(text).error();
  return parse_scenario(*text, path);
}

}  // namespace lockstep::worker::simulator
