#include "random_scenario.h"

#include <random>

#include <nlohmann/json.hpp>

namespace lockstep::worker::simulator {
namespace {

using Values = std::map<std::string, ScenarioValue>;

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed), layout_(seed), fields_(seed + 1) {}

  Scenario scenario() {
    Scenario out;
    out.world_size = chance(0.1) ? 1 : between(2, 6);
    out.config.consistency = chance(0.35)   ? Consistency::SharedSizes
                             : chance(0.15) ? Consistency::SameCollectives
                                            : Consistency::SameGraph;
    out.config.automatic_dynamic = !chance(0.2);
    out.config.assume_at_least_two = !chance(0.2);
    out.config.recompile_limit = chance(0.4) ? 8 : chance(0.2) ? 64 : between(1, 8);
    out.config.settle = chance(0.5);
    wild_ = pick({0.0, 0.02, 0.1, 0.4});
    wobble_ = pick({0.1, 0.3, 0.7});
    marks_ = pick({0.0, 0.1, 0.3});
    missing_ranks_ = pick({0.0, 0.0, 0.1});
    smallest_ = chance(0.5) ? 2 : 0;
    const int sources = between(0, 3);
    for (int i = 0; i < sources; ++i) habit_[pick(kNames)] = value();
    if (chance(0.1)) habit_["int"] = value();
    if (below(4) == 0)
      for (const char* name : {"a field", "\xC3\xA4"})
        if (below(2) == 0) field_habit_.push_back(field(name));
    const int calls = between(0, 18);
    for (int i = 0; i < calls; ++i) out.calls.push_back(call(out.world_size));
    return out;
  }

 private:
  static inline const std::vector<std::string> kNames{"x", "y", "Z", "\xC3\xA9", "x.0"};

  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  int between(int a, int b) { return std::uniform_int_distribution<int>(a, b)(random_); }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<int>(from.size()) - 1))];
  }
  double pick(std::initializer_list<double> from) { return pick(std::vector<double>(from)); }

  std::int64_t size() { return chance(0.02) ? INT64_MAX : between(smallest_, smallest_ + 2); }

  ScenarioValue value() {
    ScenarioValue v;
    const int kind = between(0, 9);
    v.kind = kind < 6 ? Kind::Tensor : kind < 8 ? Kind::Int : kind < 9 ? Kind::Bool : Kind::Float;
    if (v.kind == Kind::Tensor) {
      v.sizes.resize(static_cast<std::size_t>(between(0, 2)));
      for (auto& s : v.sizes) s = size();
      if (chance(0.2)) v.dtype = DType::I64;
      // No decision looks at strides, so scenarios are what they would be without.
      if (layout_() % 8 == 0)
        for (std::size_t d = 0; d < v.sizes.size(); ++d)
          v.strides.push_back(static_cast<std::int64_t>(layout_() % 3));
    }
    if (v.kind == Kind::Int) v.number = chance(0.05) ? INT64_MIN : between(-1, 2);
    if (v.kind == Kind::Bool) v.number = between(0, 1);
    return v;
  }

  /// The same kind of input with other numbers, or sometimes another kind of input.
  ScenarioValue variant(const ScenarioValue& habit) {
    if (chance(wild_ * 0.3)) return value();
    ScenarioValue v = habit;
    if (chance(wild_ * 0.3)) v.dtype = v.kind == Kind::Tensor ? DType::BF16 : v.dtype;
    for (auto& s : v.sizes)
      if (chance(wobble_)) s = size();
    if (v.kind == Kind::Int && chance(wobble_)) v.number = between(-1, 2);
    if (v.kind == Kind::Bool && chance(wild_)) v.number = 1 - v.number;
    if (v.kind == Kind::Float) v.real = between(0, 3);
    if (v.kind == Kind::Tensor && !v.sizes.empty() && chance(marks_)) {
      v.marks.assign(v.sizes.size(), Mark::None);
      v.marks[static_cast<std::size_t>(between(0, static_cast<int>(v.sizes.size()) - 1))] =
          static_cast<Mark>(between(1, 5));
    }
    return v;
  }

  Values inputs(const Values& habit) {
    Values out;
    for (const auto& [name, v] : habit)
      if (!chance(wild_ * 0.3)) out[name] = variant(v);
    if (chance(wild_ * 0.2)) out[pick(kNames)] = value();
    return out;
  }

  /// Drawn apart from all else, so that scenarios are what they would be without fields.
  int below(int limit) { return static_cast<int>(fields_() % static_cast<std::uint64_t>(limit)); }

  Field field(const std::string& name) {
    Field out;
    out.spec = {name, static_cast<FieldType>(below(kFieldTypes)),
                static_cast<FieldJoin>(below(kFieldJoins))};
    if (out.spec.type == FieldType::Object) out.spec.join = FieldJoin::Equal;
    return out;
  }

  std::vector<Field> fields(bool alike) {
    std::vector<Field> out;
    for (Field habit : field_habit_) {
      if (wild_ > 0 && below(40) == 0) continue;
      if (wild_ > 0 && below(40) == 0) habit = field(habit.spec.name);
      const int value = alike && below(8) != 0 ? 0 : below(4);
      static const std::vector<std::string> kTexts{"", "a", "b", std::string("a\0", 2)};
      static const std::vector<std::string> kBytes{"", "a", "\xff", std::string("a\0", 2)};
      const auto at = static_cast<std::size_t>(value);
      if (habit.spec.type == FieldType::Bool) habit.value.number = value % 2;
      if (habit.spec.type == FieldType::Int)
        habit.value.number = value == 3 ? INT64_MIN : value - 1;
      if (habit.spec.type == FieldType::Text || habit.spec.type == FieldType::Object)
        habit.value.bytes = kTexts[at];
      if (habit.spec.type == FieldType::Bytes) habit.value.bytes = kBytes[at];
      out.push_back(std::move(habit));
    }
    return out;
  }

  ScenarioCall call(int world) {
    ScenarioCall call;
    const std::string frame = chance(0.2) ? "g" : "f";
    if (!chance(0.1)) call.frame = frame;
    const Values common = inputs(habit_);
    const bool alike = chance(0.4);
    const bool gap = chance(missing_ranks_);
    const bool fields_alike = below(2) == 0;
    if (below(20) == 0) field_habit_.clear();
    for (int r = 0; r < world; ++r) {
      if (gap && chance(0.5)) continue;
      ScenarioGroup group;
      group.ranks = RankSet::of(Rank{r});
      group.frame = chance(wild_ * 0.1) ? "h" : frame;
      group.values = alike || chance(0.4) ? common : inputs(common);
      group.fields = fields(fields_alike);
      call.present.insert(group.ranks);
      bool joined = false;
      for (auto& other : call.groups)
        if (!joined && other.frame == group.frame && other.values == group.values && chance(0.8) &&
            other.fields == group.fields) {
          other.ranks.insert(group.ranks);
          joined = true;
        }
      if (!joined) call.groups.push_back(std::move(group));
    }
    return call;
  }

  std::mt19937_64 random_, layout_, fields_;
  std::vector<Field> field_habit_;
  double wild_ = 0, wobble_ = 0, marks_ = 0, missing_ranks_ = 0;
  int smallest_ = 0;
  Values habit_;
};

nlohmann::ordered_json value_json(const ScenarioValue& v) {
  switch (v.kind) {
    case Kind::Int:
      return {{"int", v.number}};
    case Kind::Bool:
      return {{"bool", v.number != 0}};
    case Kind::Float:
      return {{"float", v.real}};
    case Kind::Tensor:
      break;
  }
  nlohmann::ordered_json out{{"tensor", v.sizes}, {"dtype", dtype_name(v.dtype)}};
  if (!v.strides.empty()) out["strides"] = v.strides;
  constexpr const char* kMarkNames[] = {"",         "dynamic", "maybe_dynamic",
                                        "unbacked", "static",  "uniform"};
  for (std::size_t d = 0; d < v.marks.size(); ++d)
    if (v.marks[d] != Mark::None)
      out["marks"][std::to_string(d)] = kMarkNames[static_cast<std::size_t>(v.marks[d])];
  return out;
}

nlohmann::ordered_json field_json(const Field& field) {
  constexpr const char* kJoins[] = {"equal", "min", "max", "union"};
  nlohmann::ordered_json out{{"join", kJoins[static_cast<std::size_t>(field.spec.join)]}};
  if (field.spec.type == FieldType::Bool) out["bool"] = field.value.number != 0;
  if (field.spec.type == FieldType::Int) out["int"] = field.value.number;
  if (field.spec.type == FieldType::Text) out["string"] = field.value.bytes;
  if (field.spec.type == FieldType::Object) out["object"] = field.value.bytes;
  if (field.spec.type == FieldType::Bytes) {
    std::string hex;
    for (const char c : field.value.bytes)
      for (const int half : {(c >> 4) & 15, c & 15}) hex += "0123456789ABCDEF"[half];
    out["hex"] = hex;
  }
  return out;
}

}  // namespace

Scenario random_scenario(std::uint64_t seed) { return Writer(seed).scenario(); }

std::string scenario_text(const Scenario& scenario) {
  using nlohmann::ordered_json;
  constexpr const char* kConsistencyNames[] = {"same_graph", "same_collectives", "shared_sizes"};
  ordered_json calls = ordered_json::array();
  for (const ScenarioCall& call : scenario.calls) {
    ordered_json one = ordered_json::object();
    if (call.frame) one["frame"] = *call.frame;
    one["inputs"] = ordered_json::array();
    for (const ScenarioGroup& group : call.groups) {
      ordered_json values = ordered_json::object();
      for (const auto& [name, v] : group.values) values[name] = value_json(v);
      ordered_json g{{"ranks", group.ranks.text()}, {"values", values}};
      for (const Field& field : group.fields) g["fields"][field.spec.name] = field_json(field);
      if (!call.frame || *call.frame != group.frame) g["frame"] = group.frame;
      one["inputs"].push_back(g);
    }
    calls.push_back(one);
  }
  const ordered_json out{
      {"format", "lockstep.scenario/1"},
      {"world_size", scenario.world_size},
      {"config",
       {{"consistency", kConsistencyNames[static_cast<std::size_t>(scenario.config.consistency)]},
        {"automatic_dynamic", scenario.config.automatic_dynamic},
        {"assume_at_least_two", scenario.config.assume_at_least_two},
        {"recompile_limit", scenario.config.recompile_limit},
        {"settle", scenario.config.settle}}},
      {"calls", calls}};
  return out.dump();
}

}  // namespace lockstep::worker::simulator
