#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/answers/suggestion.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

using Place = std::tuple<std::string, std::string, std::optional<std::size_t>>;
using Dims = std::map<std::string, std::map<std::size_t, Mark>>;  // by source
using FrameDims = std::map<std::string, Dims>;

Place place_of(const std::string& frame, const SourceDecision& source, std::size_t d) {
  return {frame, source.spec.name,
          source.spec.kind == Kind::Tensor ? std::optional<std::size_t>(d) : std::nullopt};
}

using Held = std::set<std::pair<std::string, std::size_t>>;  // dims that a rank marks static

void mark(ScenarioValues& values, const Dims& dims, const Held& held) {
  for (const auto& [source, marked] : dims) {
    const auto at = values.find(source);
    if (at == values.end() || at->second.kind != Kind::Tensor) continue;
    ScenarioValue& value = at->second;
    for (const auto& [d, with] : marked) {
      if (d >= value.sizes.size() || held.contains({source, d})) continue;
      if (value.marks.empty()) value.marks.assign(value.sizes.size(), Mark::None);
      if (value.marks[d] == Mark::None) value.marks[d] = with;
    }
  }
}

Held held_in(const ScenarioCall& call) {
  Held out;
  for (const ScenarioGroup& group : call.groups)
    for (const auto& [source, value] : group.values)
      for (std::size_t d = 0; d < value.marks.size(); ++d)
        if (value.marks[d] == Mark::Static) out.insert({source, d});
  return out;
}

void mark_call(const FrameDims& frames, ScenarioCall& call) {
  const Held held = held_in(call);
  for (ScenarioGroup& group : call.groups)
    if (const auto dims = frames.find(group.frame); dims != frames.end())
      mark(group.values, dims->second, held);
}

/// Stored calls that get marks as they are read.
class MarkedCalls final : public StoredCalls {
 public:
  MarkedCalls(std::shared_ptr<const StoredCalls> plain, FrameDims frames)
      : plain_(std::move(plain)), frames_(std::move(frames)) {}
  [[nodiscard]] std::size_t size() const override { return plain_->size(); }
  [[nodiscard]] RankPartition partition() const override { return plain_->partition(); }

 private:
  [[nodiscard]] Result<ScenarioCall> read(std::size_t index) const override {
    ScenarioCall call = *plain_->call(index);  // if the read fails, plain_ has the error
    mark_call(frames_, call);
    return call;
  }
  std::shared_ptr<const StoredCalls> plain_;
  FrameDims frames_;
};

/// Adds marks to the inputs of pools. Pools that shared their inputs share the marked ones.
class MarkedPools {
 public:
  std::shared_ptr<const InputPool> marked(const InputPool& plain, const Dims& dims) {
    auto& inputs = made_[plain.inputs];
    if (!inputs) {
      std::vector<Observation> all = *plain.inputs;
      for (Observation& seen : all) mark(seen, dims);
      inputs = std::make_shared<const std::vector<Observation>>(std::move(all));
    }
    InputPool out = plain;
    out.inputs = inputs;
    mark(out.least, dims);
    mark(out.greatest, dims);
    return std::make_shared<const InputPool>(std::move(out));
  }

 private:
  static void mark(Observation& seen, const Dims& dims) {
    for (const auto& [source, marked] : dims) {
      const auto at = seen.list->find(source);
      if (!at || seen.list->sources()[*at].kind != Kind::Tensor) continue;
      for (const auto& [d, with] : marked) {
        if (d >= seen.of(*at).size()) continue;
        seen.marks.resize(seen.values.size(), Mark::None);
        Mark& mark = seen.marks[seen.list->offsets()[*at] + d];
        if (mark == Mark::None) mark = with;
      }
    }
  }
  using Inputs = std::shared_ptr<const std::vector<Observation>>;
  std::map<Inputs, Inputs> made_;
};

std::string dumped(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Dims that can be marked, by frame.
FrameDims markable(const std::vector<Suggestion>& suggestions) {
  FrameDims out;
  for (const Suggestion& s : suggestions)
    if (s.dim) out[s.frame][s.source][*s.dim] = s.mark;
  return out;
}

/// Call in which a place became a symbol.
struct MadeSymbol {
  std::size_t call = 0;
  bool settled = false;  // the place became a symbol only because the frame settled
};

/// Text such as {"x": {0: "dynamic"}}, for Python.
std::string python_marks(const Dims& dims) {
  std::string out;
  for (const auto& [source, marked] : dims) {
    std::string inner;
    for (const auto& [d, with] : marked)
      inner += fmt::format("{}{}: \"dynamic\"", inner.empty() ? "" : ", ", d);
    out += fmt::format("{}{}: {{{}}}", out.empty() ? "" : ", ", dumped(source), inner);
  }
  return "{" + out + "}";
}

}  // namespace

std::vector<Suggestion> suggest_marks(const Scenario& scenario, const DryRunResult& result,
                                      const Survey& survey) {
  std::set<Place> constant;
  std::map<Place, MadeSymbol> made_symbol;
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    if (!result.calls[c].reported) continue;
    const std::string frame = frame_called(scenario, c);
    const Decision& reported = *result.calls[c].reported;
    for (const SourceDecision& source : reported.sources) {
      if (source.spec.kind == Kind::Bool) continue;
      for (std::size_t d = 0; d < source.dims.size(); ++d) {
        Place place = place_of(frame, source, d);
        if (!source.dims[d].is_symbol)
          constant.insert(std::move(place));
        else if (constant.contains(place))
          made_symbol.emplace(std::move(place),
                              MadeSymbol{c, reported.symbols[source.dims[d].symbol].settled});
      }
    }
  }
  std::vector<Suggestion> out;
  for (const SurveyedDim& dim : survey.dims) {
    const auto made = made_symbol.find({dim.frame, dim.source, dim.dim});
    if (made == made_symbol.end()) continue;
    if (made->second.settled && dim.least == dim.greatest) continue;  // it never varied
    out.push_back({.frame = dim.frame,
                   .source = dim.source,
                   .dim = dim.dim,
                   .call = made->second.call,
                   .least = dim.least,
                   .greatest = dim.greatest});
  }
  return out;
}

Scenario with_marks(Scenario scenario, const std::vector<Suggestion>& suggestions) {
  const FrameDims frames = markable(suggestions);
  const auto mark_frame = [&](const std::string& frame, ScenarioValues& values) {
    if (const auto dims = frames.find(frame); dims != frames.end()) mark(values, dims->second, {});
  };
  for (ScenarioCall& call : scenario.calls) mark_call(frames, call);
  if (scenario.stored) scenario.stored = std::make_shared<MarkedCalls>(scenario.stored, frames);
  for (Block& block : scenario.generator.blocks) {
    mark_frame(block.call.frame, block.call.like);
    for (Variant& variant : block.variants) mark_frame(variant.call.frame, variant.call.like);
  }
  MarkedPools pools;
  for (GeneratedCall& kind : scenario.generator.kinds) {
    mark_frame(kind.frame, kind.like);
    const auto dims = frames.find(kind.frame);
    if (kind.pool && dims != frames.end()) kind.pool = pools.marked(*kind.pool, dims->second);
    if (!kind.as_is) continue;
    ScenarioCall marked = *kind.as_is;
    mark_call(frames, marked);
    kind.as_is = std::make_shared<const ScenarioCall>(std::move(marked));
  }
  return scenario;
}

MarkTexts mark_texts(const std::vector<Suggestion>& suggestions) {
  MarkTexts out;
  nlohmann::ordered_json scenario;
  for (const auto& [frame, dims] : markable(suggestions)) {
    out.cpp += fmt::format("// {}, before each call\n", frame);
    for (const auto& [source, marked] : dims)
      for (const auto& [d, with] : marked)
        out.cpp += fmt::format("lockstep::worker::mark_dynamic({}, {});\n", source, d);
    out.python += fmt::format("# {}\nmarks={}\n", frame, python_marks(dims));
    for (const auto& [source, marked] : dims)
      for (const auto& [d, with] : marked)
        scenario[frame][source]["marks"][std::to_string(d)] = "dynamic";
  }
  if (!scenario.empty()) out.scenario = dumped(scenario, 1) + "\n";
  for (const Suggestion& s : suggestions)
    if (s.dim)
      out.cpp += fmt::format(
          "// {} was {} to {} in {}; where that is a promise: FrameOptions::constraints "
          "\"{} <= {}\", \"{} <= {}\"\n",
          size_text(s.source, *s.dim), s.least, s.greatest, s.frame, s.least,
          size_text(s.source, *s.dim), size_text(s.source, *s.dim), s.greatest);
  return out;
}

}  // namespace lockstep::worker::simulator
