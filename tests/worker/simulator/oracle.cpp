#include "oracle.h"

#include <algorithm>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;
using Values = std::map<std::string, ScenarioValue>;
using Dim = std::pair<std::string, int>;  // source, dim; an int is dim -1

/// What a rank passes in; as a pointer, its values.
struct Brought {
  const Values* values = nullptr;
  const std::vector<Field>* fields = nullptr;
  const Values* operator->() const { return values; }
  const Values& operator*() const { return *values; }
};
/// Ranks that take part, with what each passes in.
using Ranks = std::map<int, Brought>;

/// State of one source: as in rules.md, "State".
struct Memory {
  std::set<std::int64_t> ints;                  // int values seen
  std::set<std::size_t> ndims;                  // numbers of dims seen
  std::map<int, std::set<std::int64_t>> sizes;  // per dim index

  bool everything() const { return (!ints.empty() && !ndims.empty()) || ndims.size() > 1; }
  bool dynamic(int dim) const {
    if (dim < 0) return everything() || ints.size() > 1;
    return everything() || (sizes.count(dim) > 0 && sizes.at(dim).size() > 1);
  }
};
using State = std::map<std::string, Memory>;

/// What one rank's entry says of one dim or int.
struct Place {
  bool symbol = false, unbacked = false;
  std::optional<std::int64_t> min;
  std::int64_t value = 0;
  bool operator==(const Place&) const = default;
};
/// A field of a rank, or of all: one value, of a union several.
struct OwnField {
  FieldType type = FieldType::Int;
  FieldJoin join = FieldJoin::Equal;
  std::vector<FieldValue> values;
  bool operator==(const OwnField&) const = default;
  bool like(const OwnField& other) const { return type == other.type && join == other.join; }
  /// rules.md, "Fields": an entry with these values serves one with `other`'s.
  bool serves(const OwnField& other) const {
    if (!like(other)) return false;
    for (const FieldValue& v : other.values) {
      if (join == FieldJoin::Equal && !(v == values[0])) return false;
      if (join == FieldJoin::Min && v < values[0]) return false;
      if (join == FieldJoin::Max && values[0] < v) return false;
      if (std::count(values.begin(), values.end(), v) == 0 && join == FieldJoin::Union)
        return false;
    }
    return true;
  }
};
using OwnFields = std::map<std::string, OwnField>;
OwnFields fields_of(const Brought& rank) {
  OwnFields out;
  for (const Field& f : *rank.fields) out[f.spec.name] = {f.spec.type, f.spec.join, {f.value}};
  return out;
}
template <class Test>
bool all_pairs(const OwnFields& a, const OwnFields& b, Test test) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, f] : a)
    if (b.count(name) == 0 || !test(f, b.at(name))) return false;
  return true;
}

/// One rank's own decision.
struct Own {
  std::map<std::string, std::pair<Kind, DType>> sources;
  std::map<std::string, std::size_t> ndims;
  std::map<std::string, std::int64_t> bools;
  std::map<Dim, Place> places;
  OwnFields fields;  // joined
  bool operator==(const Own&) const = default;
};
struct OracleEntry {
  std::map<int, Own> own;
  int reported_symbols = 0;
  bool superseded = false;
};
struct OracleFrame {
  State state;
  std::vector<OracleEntry> entries;
};

std::string kind_word(Kind k) {
  switch (k) {
    case Kind::Tensor:
      return "tensor";
    case Kind::Int:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::Bool:
      return "bool";
  }
  return "?";
}
ordered_json mark_word(Mark m) {
  switch (m) {
    case Mark::None:
      return nullptr;
    case Mark::Dynamic:
      return "dynamic";
    case Mark::MaybeDynamic:
      return "maybe_dynamic";
    case Mark::Unbacked:
      return "unbacked";
    case Mark::Static:
      return "static";
    case Mark::Uniform:
      return "uniform";
  }
  return nullptr;
}
std::string dtype_word(DType d) {
  const char* names[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return names[static_cast<int>(d)];
}
std::string ranks_word(const std::vector<int>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    out += (out.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (j > i) out += "-" + std::to_string(ranks[j]);
    i = j + 1;
  }
  return out;
}

std::string hex_word(const std::string& bytes) {
  std::string out;
  for (const char c : bytes)
    for (const int half : {(c >> 4) & 15, c & 15}) out += "0123456789abcdef"[half];
  return out;
}
std::string quoted_word(const std::string& text) {
  std::string out = "\"";
  for (const char c : text)
    out += c >= 0 && (c < 32 || c == 127) ? "\\x" + hex_word({c})
           : c == '\\'                    ? "\\\\"
                                          : std::string{c};
  return out + "\"";
}
/// As results have it; `in_table`: as tables of errors have it.
ordered_json field_word(FieldType type, const FieldValue& v, bool in_table) {
  switch (type) {
    case FieldType::Bool:
      return v.number != 0;
    case FieldType::Int:
      return v.number;
    case FieldType::Text:
      return in_table ? quoted_word(v.bytes) : v.bytes;
    case FieldType::Bytes:
      if (in_table) return "0x" + hex_word(v.bytes);
      return {{"hex", hex_word(v.bytes)}};
    case FieldType::Object: {
      const std::string word = quoted_word(v.bytes);
      return in_table ? word.substr(1, word.size() - 2) : v.bytes;
    }
  }
  return nullptr;
}
std::string field_kind_word(const OwnField& f) {
  const char* types[] = {"bool", "int", "string", "bytes", "object"};
  const char* joins[] = {"equal", "min", "max", "union"};
  return std::string(types[static_cast<int>(f.type)]) + ", " + joins[static_cast<int>(f.join)];
}

Mark mark_of(const ScenarioValue& v, int dim) {
  return v.marks.empty() ? Mark::None : v.marks[static_cast<std::size_t>(dim)];
}
bool has_dim(const Values& values, const Dim& d) {
  const auto it = values.find(d.first);
  return it != values.end() && it->second.kind == Kind::Tensor &&
         d.second < static_cast<int>(it->second.sizes.size());
}
std::int64_t size_at(const Values& values, const Dim& d) {
  return values.at(d.first).sizes[static_cast<std::size_t>(d.second)];
}

/// One error: groups by distinct value over the ranks for which `of` gives one.
ordered_json error_of(const char* code, const ordered_json& source, const std::vector<int>& ranks,
                      const std::function<ordered_json(int)>& of) {
  std::vector<std::pair<ordered_json, std::vector<int>>> groups;
  for (int r : ranks) {
    const ordered_json v = of(r);
    auto it =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == v; });
    if (it == groups.end()) {
      groups.push_back({v, {r}});
    } else {
      it->second.push_back(r);
    }
  }
  ordered_json list = ordered_json::array();
  for (const auto& [v, members] : groups)
    list.push_back({{"ranks", ranks_word(members)}, {"value", v}});
  return {{"code", code}, {"source", source}, {"groups", list}};
}

template <class F>
bool same_for_all(const std::vector<int>& ranks, F of) {
  for (int r : ranks)
    if (of(r) != of(ranks.front())) return false;
  return true;
}

class Group {
 public:
  Group(const DecisionConfig& config, const Ranks& ranks) : config_(config), ranks_(ranks) {
    for (const auto& [r, values] : ranks) {
      all_.push_back(r);
      given_[r] = fields_of(values);
      for (const auto& [name, f] : given_[r]) field_names_.insert(name);
      for (const auto& [name, v] : *values) {
        names_.insert(name);
        if (v.kind == Kind::Tensor)
          for (std::size_t d = 0; d < v.sizes.size(); ++d)
            dims_.insert({name, static_cast<int>(d)});
      }
    }
    shared_ = config.consistency == Consistency::SharedSizes;
  }

  /// null where there is none.
  ordered_json error() const {
    for (const auto& [check, of_fields] :
         {std::pair(&Group::sources, &Group::field_sources),
          std::pair(&Group::kinds, &Group::field_kinds), std::pair(&Group::dtypes, &Group::nothing),
          std::pair(&Group::ndims, &Group::nothing),
          std::pair(&Group::constants, &Group::field_values)}) {
      if (auto e = shared_ ? nothing() : (this->*check)(); !e.is_null()) return e;
      if (auto e = (this->*of_fields)(); !e.is_null()) return e;
    }
    for (const Dim& d : dims_) {
      bool fixed = false, free = false;
      for (int r : with(d)) {
        fixed = fixed || mark(r, d) == Mark::Static;
        free = free || mark(r, d) == Mark::Dynamic || mark(r, d) == Mark::Unbacked;
      }
      if (fixed && free)
        return error_of("MARK_CONFLICT", label(d), with(d),
                        [&](int r) { return mark_word(mark(r, d)); });
    }
    for (const Mark equal : {Mark::Static, Mark::Uniform})
      for (const Dim& d : dims_)
        if (marked(d, equal) &&
            !same_for_all(with(d), [&](int r) { return size_at(*ranks_.at(r), d); }))
          return error_of("CONSTRAINT_VIOLATION", label(d), with(d),
                          [&](int r) { return ordered_json(size_at(*ranks_.at(r), d)); });
    return nullptr;
  }

  bool fits(const Own& own, int rank) const {
    const Values& values = *ranks_.at(rank);
    if (own.sources.size() != values.size()) return false;
    for (const auto& [name, v] : values) {
      const auto it = own.sources.find(name);
      if (it == own.sources.end() || it->second.first != v.kind) return false;
      if (v.kind == Kind::Tensor &&
          (it->second.second != v.dtype || own.ndims.at(name) != v.sizes.size()))
        return false;
      if (v.kind == Kind::Bool && own.bools.at(name) != v.number) return false;
    }
    for (const auto& [d, place] : own.places) {
      const std::int64_t actual = d.second < 0 ? values.at(d.first).number : size_at(values, d);
      if (!place.symbol && actual != place.value) return false;
      if (place.symbol && place.min && actual < *place.min) return false;
      const Mark m = d.second < 0 ? Mark::None : mark(rank, d);
      if (m == Mark::Dynamic && !place.symbol) return false;
      if (m == Mark::Unbacked && !(place.symbol && place.unbacked)) return false;
      if (m == Mark::Static && place.symbol) return false;
    }
    return all_pairs(own.fields, given_.at(rank),
                     [](const OwnField& e, const OwnField& mine) { return e.serves(mine); });
  }

  State observed() const {
    State state;
    for (const auto& [r, values] : ranks_) add(state, *values);
    return state;
  }
  void remember(State& state) const {
    for (const auto& [r, values] : ranks_) add(state, *values);
  }

  /// The same sources, kinds, dtypes, ndims and bools.
  bool alike(const Own& own, int rank) const {
    Own mine;
    for (const auto& [name, v] : *ranks_.at(rank)) {
      mine.sources[name] = {v.kind, v.kind == Kind::Tensor ? v.dtype : DType::F32};
      if (v.kind == Kind::Tensor) mine.ndims[name] = v.sizes.size();
      if (v.kind == Kind::Bool) mine.bools[name] = v.number;
    }
    return mine.sources == own.sources && mine.ndims == own.ndims && mine.bools == own.bools &&
           all_pairs(own.fields, given_.at(rank), [](const OwnField& e, const OwnField& f) {
             return e.like(f) && (e.join != FieldJoin::Equal || e.serves(f));
           });
  }

  /// `settled`: by the paragraph "With `settle`".
  OracleEntry decide(const State& state, bool settled) const {
    const auto symbol = [&](const State& s, const Dim& d) {
      return this->symbol(s, d) || (settled && !marked(d, Mark::Static));
    };
    bool two = config_.assume_at_least_two && !settled;
    for (const Dim& d : dims_)
      if (symbol(state, d) && !marked(d, Mark::Unbacked))
        two = two && *state.at(d.first).sizes.at(d.second).begin() >= 2;
    OracleEntry entry;
    for (const auto& [r, values] : ranks_) {
      Own& own = entry.own[r];
      for (const std::string& name : field_names_) own.fields[name] = joined(name);
      for (const auto& [name, v] : *values) {
        own.sources[name] = {v.kind, v.kind == Kind::Tensor ? v.dtype : DType::F32};
        if (v.kind == Kind::Bool) own.bools[name] = v.number;
        if (v.kind == Kind::Int) {
          const bool dynamic = settled || state.at(name).dynamic(-1);
          own.places[{name, -1}] = {dynamic, false, std::nullopt, dynamic ? 0 : v.number};
        }
        if (v.kind != Kind::Tensor) continue;
        own.ndims[name] = v.sizes.size();
        for (int i = 0; i < static_cast<int>(v.sizes.size()); ++i) {
          const Dim d{name, i};
          const bool unbacked = marked(d, Mark::Unbacked);
          if (symbol(state, d))
            own.places[d] = {true, unbacked, unbacked || !two ? 0 : 2, 0};
          else
            own.places[d] = {false, false, std::nullopt, size_at(*values, d)};
        }
      }
    }
    return entry;
  }

  /// Adds decisions and symbols to the call's result; counts the symbols into the entry.
  void report(OracleEntry& entry, ordered_json& out) const {
    const int donor = donor_of(entry);
    ordered_json decisions = ordered_json::object(), symbols = ordered_json::object();
    const auto put = [&](int lowest, const Dim& d) -> ordered_json {
      const Place& place = entry.own.at(lowest).places.at(d);
      if (!place.symbol) return place.value;
      const std::string name = "s" + std::to_string(entry.reported_symbols++);
      const Values& theirs = *ranks_.at(donor);
      const bool can = d.second < 0
                           ? theirs.count(d.first) > 0 && theirs.at(d.first).kind == Kind::Int
                           : has_dim(theirs, d);
      const Values& from = can ? theirs : *ranks_.at(lowest);
      symbols[name] = {{"source", d.second < 0 ? ordered_json(d.first) : label(d)},
                       {"min", place.min ? ordered_json(*place.min) : ordered_json(nullptr)},
                       {"hint", d.second < 0 ? from.at(d.first).number : size_at(from, d)}};
      return name;
    };
    for (const std::string& name : names_) {
      const int lowest = having(name).front();
      const ScenarioValue& v = ranks_.at(lowest)->at(name);
      if (v.kind == Kind::Bool) decisions[name] = v.number != 0;
      if (v.kind == Kind::Int) decisions[name] = put(lowest, {name, -1});
      if (v.kind != Kind::Tensor) continue;
      decisions[name] = ordered_json::array();
      for (int i = 0; i < static_cast<int>(v.sizes.size()); ++i)
        decisions[name].push_back(put(lowest, {name, i}));
    }
    out["decisions"] = decisions;
    out["symbols"] = symbols;
    for (const std::string& name : field_names_) {
      const OwnField f = joined(name);
      ordered_json list = ordered_json::array();
      for (const FieldValue& v : f.values) list.push_back(field_word(f.type, v, false));
      out["fields"][name] = f.join == FieldJoin::Union ? list : list[0];
    }
  }

  const std::vector<int>& all() const { return all_; }

 private:
  ordered_json label(const Dim& d) const {
    return d.first + ".size(" + std::to_string(d.second) + ")";
  }
  Mark mark(int r, const Dim& d) const { return mark_of(ranks_.at(r)->at(d.first), d.second); }
  std::vector<int> with(const Dim& d) const {
    std::vector<int> out;
    for (int r : all_)
      if (has_dim(*ranks_.at(r), d)) out.push_back(r);
    return out;
  }
  std::vector<int> having(const std::string& name) const {
    std::vector<int> out;
    for (int r : all_)
      if (ranks_.at(r)->count(name) > 0) out.push_back(r);
    return out;
  }
  bool marked(const Dim& d, Mark m) const {
    for (int r : with(d))
      if (mark(r, d) == m) return true;
    return false;
  }
  bool symbol(const State& state, const Dim& d) const {
    if (marked(d, Mark::Dynamic) || marked(d, Mark::Unbacked)) return true;
    return !marked(d, Mark::Static) && (marked(d, Mark::MaybeDynamic) || marked(d, Mark::Uniform) ||
                                        state.at(d.first).dynamic(d.second));
  }
  int donor_of(const OracleEntry& entry) const {
    std::set<Dim> wanted;
    for (const auto& [r, own] : entry.own)
      for (const auto& [d, place] : own.places)
        if (d.second >= 0 && place.symbol) wanted.insert(d);
    for (int r : all_) {
      bool good = true;
      for (const Dim& d : wanted)
        good = good && has_dim(*ranks_.at(r), d) && size_at(*ranks_.at(r), d) >= 2;
      if (good) return r;
    }
    return all_.front();
  }
  static void add(State& state, const Values& values) {
    for (const auto& [name, v] : values) {
      if (v.kind == Kind::Int) state[name].ints.insert(v.number);
      if (v.kind != Kind::Tensor) continue;
      Memory& m = state[name];
      m.ndims.insert(v.sizes.size());
      for (std::size_t i = 0; i < v.sizes.size(); ++i)
        m.sizes[static_cast<int>(i)].insert(v.sizes[i]);
    }
  }

  /// Over the ranks in order.
  OwnField joined(const std::string& name) const {
    OwnField out;
    for (int r : all_) {
      const OwnField& mine = given_.at(r).at(name);
      const FieldValue& v = mine.values[0];
      if (r == all_.front()) {
        out = mine;
      } else if (out.join == FieldJoin::Union) {
        if (std::count(out.values.begin(), out.values.end(), v) == 0) out.values.push_back(v);
      } else if ((out.join == FieldJoin::Min && v < out.values[0]) ||
                 (out.join == FieldJoin::Max && out.values[0] < v)) {
        out.values[0] = v;
      }
    }
    return out;
  }
  ordered_json nothing() const { return nullptr; }
  ordered_json field_error(const char* code,
                           const std::function<ordered_json(int, const std::string&)>& of) const {
    for (const auto& name : field_names_) {
      const auto value = [&](int r) { return of(r, name); };
      if (!same_for_all(all_, value)) return error_of(code, name, all_, value);
    }
    return nullptr;
  }
  ordered_json field_sources() const {
    return field_error("SOURCE_MISMATCH", [&](int r, const std::string& name) -> ordered_json {
      return given_.at(r).count(name) > 0 ? "present" : "absent";
    });
  }
  ordered_json field_kinds() const {
    return field_error("KIND_MISMATCH", [&](int r, const std::string& name) -> ordered_json {
      return field_kind_word(given_.at(r).at(name));
    });
  }
  ordered_json field_values() const {
    return field_error("CONSTANT_MISMATCH", [&](int r, const std::string& name) -> ordered_json {
      const OwnField& f = given_.at(r).at(name);
      return f.join == FieldJoin::Equal ? field_word(f.type, f.values[0], true) : nullptr;
    });
  }

  ordered_json sources() const {
    for (const auto& name : names_)
      if (having(name).size() != all_.size())
        return error_of("SOURCE_MISMATCH", name, all_, [&](int r) -> ordered_json {
          return ranks_.at(r)->count(name) > 0 ? "present" : "absent";
        });
    return nullptr;
  }
  ordered_json each(const char* code, std::optional<Kind> only,
                    const std::function<ordered_json(const ScenarioValue&)>& of) const {
    for (const auto& name : names_) {
      const auto value = [&](int r) { return of(ranks_.at(r)->at(name)); };
      if (only && ranks_.at(all_.front())->at(name).kind != *only) continue;
      if (!same_for_all(all_, value)) return error_of(code, name, all_, value);
    }
    return nullptr;
  }
  ordered_json kinds() const {
    return each("KIND_MISMATCH", std::nullopt,
                [](const ScenarioValue& v) -> ordered_json { return kind_word(v.kind); });
  }
  ordered_json dtypes() const {
    return each("DTYPE_MISMATCH", Kind::Tensor,
                [](const ScenarioValue& v) -> ordered_json { return dtype_word(v.dtype); });
  }
  ordered_json ndims() const {
    return each("NDIM_MISMATCH", Kind::Tensor,
                [](const ScenarioValue& v) -> ordered_json { return v.sizes.size(); });
  }
  ordered_json constants() const {
    return each("CONSTANT_MISMATCH", Kind::Bool,
                [](const ScenarioValue& v) -> ordered_json { return v.number != 0; });
  }

  const DecisionConfig& config_;
  const Ranks& ranks_;
  std::vector<int> all_;
  std::set<std::string> names_, field_names_;
  std::map<int, OwnFields> given_;
  std::set<Dim> dims_;
  bool shared_ = false;
};

bool supersedes(const OracleEntry& fresh, const OracleEntry& old) {
  for (const auto& [r, own] : fresh.own) {
    Own a = own, b = old.own.at(r);
    if (a.places.size() != b.places.size()) return false;
    if (!all_pairs(a.fields, b.fields,
                   [](const OwnField& f, const OwnField& o) { return f.serves(o); }))
      return false;
    a.fields = b.fields = {};
    for (auto& [d, place] : a.places) {
      if (b.places.count(d) == 0) return false;
      Place& other = b.places.at(d);
      if (place.min && other.min && *other.min < *place.min) return false;
      place.min = other.min = std::nullopt;
    }
    if (!(a == b)) return false;
  }
  return true;
}

/// Rules 1 (from SOURCE_MISMATCH on) to 4 for the ranks of one frame; fills the keys behind
/// "frame". Returns the entry that runs, -1 for none.
int run_call(const DecisionConfig& config, const Ranks& ranks, OracleFrame& frame,
             ordered_json& out) {
  const Group group(config, ranks);
  if (auto e = group.error(); !e.is_null()) {
    out["outcome"] = "error";
    out["error"] = e;
    return -1;
  }
  int best = -1, alive = 0, alike = 0;
  for (std::size_t i = 0; i < frame.entries.size(); ++i) {
    const OracleEntry& entry = frame.entries[i];
    if (entry.superseded) continue;
    ++alive;
    bool fit = true, same = true;
    for (int r : group.all()) {
      fit = fit && group.fits(entry.own.at(r), r);
      same = same && group.alike(entry.own.at(r), r);
    }
    alike += same ? 1 : 0;
    if (fit && (best < 0 || entry.reported_symbols <
                                frame.entries[static_cast<std::size_t>(best)].reported_symbols))
      best = static_cast<int>(i);
  }
  if (best >= 0) {
    out["outcome"] = "reused";
    out["entry"] = best;
    return best;
  }
  if (alive >= config.recompile_limit) {
    out["outcome"] = "fallback";
    return -1;
  }
  if (config.automatic_dynamic)
    group.remember(frame.state);
  else
    frame.state = group.observed();
  const int half = config.recompile_limit / 2 + config.recompile_limit % 2;
  OracleEntry entry = group.decide(frame.state, config.settle && alike >= half - 1);
  out["outcome"] = "compiled";
  out["entry"] = frame.entries.size();
  group.report(entry, out);
  for (OracleEntry& old : frame.entries)
    if (!old.superseded && supersedes(entry, old)) old.superseded = true;
  frame.entries.push_back(entry);
  return static_cast<int>(frame.entries.size()) - 1;
}

struct Alone {
  std::map<std::string, OracleFrame> frames;
  int compiles = 0;
};

ordered_json uncoordinated(const Scenario& s) {
  std::map<int, Alone> world;
  ordered_json first = nullptr;
  int most_graphs = 0;
  for (std::size_t c = 0; c < s.calls.size(); ++c) {
    struct Ran {
      bool compiled, fallback;
      Own own;
    };
    std::map<std::string, std::vector<Ran>> by_frame;
    for (int r = 0; r < s.world_size; ++r)
      for (const auto& g : s.calls[c].groups) {
        if (!g.ranks.contains({r})) continue;
        ordered_json out;
        const Ranks alone{{r, {&g.values, &g.fields}}};
        OracleFrame& frame = world[r].frames[g.frame];
        const int entry = run_call(s.config, alone, frame, out);
        const bool compiled = out["outcome"] == "compiled";
        world[r].compiles += compiled ? 1 : 0;
        by_frame[g.frame].push_back(
            {compiled, entry < 0,
             entry < 0 ? Own{} : frame.entries[static_cast<std::size_t>(entry)].own.at(r)});
      }
    for (const auto& [name, ran] : by_frame) {
      std::vector<const Ran*> different;
      for (const Ran& a : ran) {
        bool known = false;
        for (const Ran* b : different)
          known = known || (a.fallback == b->fallback && a.own == b->own);
        if (!known) different.push_back(&a);
        if ((different.size() > 1 || a.compiled != ran.front().compiled) && first.is_null())
          first = c;
      }
      most_graphs = std::max(most_graphs, static_cast<int>(different.size()));
    }
  }
  int most_compiles = 0;
  for (const auto& [r, alone] : world) most_compiles = std::max(most_compiles, alone.compiles);
  return {{"compiles_per_rank_max", most_compiles},
          {"first_divergent_call", first},
          {"distinct_graphs_max", most_graphs}};
}

}  // namespace

std::string oracle_result(const Scenario& s) {
  std::map<std::string, OracleFrame> frames;
  ordered_json calls = ordered_json::array();
  std::map<std::string, int> totals{{"compiled", 0}, {"reused", 0}, {"fallback", 0}, {"error", 0}};
  for (std::size_t c = 0; c < s.calls.size(); ++c) {
    const ScenarioCall& call = s.calls[c];
    Ranks present;
    std::map<int, std::string> frame_of;
    std::vector<int> everyone;
    for (int r = 0; r < s.world_size; ++r) {
      everyone.push_back(r);
      for (const auto& g : call.groups)
        if (g.ranks.contains({r})) {
          present[r] = {&g.values, &g.fields};
          frame_of[r] = g.frame;
        }
    }
    ordered_json out{{"call", c}, {"frame", nullptr}};
    if (!present.empty()) out["frame"] = call.frame ? *call.frame : frame_of.begin()->second;
    std::vector<int> here;
    for (const auto& [r, v] : present) here.push_back(r);
    if (here.size() != everyone.size()) {
      out["outcome"] = "error";
      out["error"] = error_of("ABSENT_RANKS", nullptr, everyone, [&](int r) -> ordered_json {
        return present.count(r) > 0 ? "present" : "absent";
      });
    } else if (!same_for_all(here, [&](int r) { return frame_of.at(r); })) {
      out["frame"] = nullptr;
      out["outcome"] = "error";
      out["error"] = error_of("FRAME_MISMATCH", nullptr, here,
                              [&](int r) -> ordered_json { return frame_of.at(r); });
    } else {
      run_call(s.config, present, frames[frame_of.begin()->second], out);
    }
    ++totals[out["outcome"]];
    calls.push_back(std::move(out));
  }
  const ordered_json result{{"format", "lockstep.dryrun/1"},
                            {"world_size", s.world_size},
                            {"calls", calls},
                            {"totals",
                             {{"compiles", totals["compiled"]},
                              {"reuses", totals["reused"]},
                              {"fallbacks", totals["fallback"]},
                              {"errors", totals["error"]}}},
                            {"uncoordinated", uncoordinated(s)}};
  return result.dump();
}

}  // namespace lockstep::worker::simulator
