#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/agree/exchange/constraints.h>
#include <lockstep/worker/job/preview/example_inputs.h>
#include <lockstep/worker/job/preview/infer.h>

namespace lockstep::worker {
namespace {

Status refused(const std::string& frame, std::string_view what) {
  return bad_input(fmt::format("infer {}: {}", frame, what));
}

/// Writes the point into the decision, as hints, and into the observation.
void put(const shapes::SizePoint& point, Decision& decision, Observation& seen) {
  for (std::size_t i = 0; i < point.size(); ++i) decision.symbols[i].hint = point[i];
  for (std::size_t s = 0; s < decision.sources.size(); ++s)
    for (std::size_t d = 0; d < decision.sources[s].dims.size(); ++d)
      if (const DimDecision& dim = decision.sources[s].dims[d]; dim.is_symbol)
        seen.values[seen.list->offsets()[s] + d] = point[dim.symbol];
}

/// Error if an output differs from the graph's sizes, as far as these are known before the run.
std::optional<Status> other_sizes(const Graph& graph, const std::vector<Array>& outputs,
                                  const shapes::Valuation& values) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Node& node = graph.nodes[graph.outputs[i].node];
    const std::vector<std::int64_t>& seen = outputs[i].sizes();
    bool same = seen.size() == node.meta.sizes.size();
    for (std::size_t d = 0; same && d < seen.size(); ++d)
      same = node.meta.sizes[d].evaluate(values).value_or(seen[d]) == seen[d];
    if (!same)
      return internal_error(fmt::format(
          "frame {}: output {} came out as [{}] and was traced as {}; this "
          "is a bug of lockstep, please report it",
          graph.name, graph.outputs[i].name, fmt::join(seen, ", "), meta_text(node.meta)));
  }
  return std::nullopt;
}

/// Answers one question, point by point.
class Inference {
 public:
  Inference(InferQuestion question, const InferOptions& options)
      : question_(std::move(question)), options_(options) {
    // Sizes have no lower bound of 2, as in an entry that has seen every size.
    for (SymbolDecision& symbol : question_.decision.symbols)
      if (symbol.min) symbol.min = 0;
  }

  Result<InferredFrame> run() {
    const TraceSetup setup = question_.setup(question_.decision, question_.observation);
    out_.frame = setup.frame;
    out_.group = setup.group.name;
    out_.ranks = setup.group_size;
    if (options_.box.lower < 0 || options_.box.empty())
      return refused(out_.frame,
                     "the box goes from a number that is at least 0 to one that is no "
                     "smaller, such as 0..64");
    if (auto made = make_box(setup.constraints); !made) return made.error();
    out_.cover = shapes::infer_size_classes(
        out_.box, [this](const shapes::SizePoint& point) { return trace_at(point); },
        {.classes = options_.classes, .solver = options_.solver});
    return std::move(out_);
  }

 private:
  Result<void> make_box(const std::vector<std::string>& constraints) {
    try {
      const DeclaredSizes declared = declared_sizes(constraints, question_.decision);
      const std::vector<shapes::Symbol> symbols = question_.decision.trace_symbols();
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        shapes::Range range = options_.box;
        if (const auto found = declared.ranges.find(symbols[i]); found != declared.ranges.end())
          range = intersect(range, found->second);
        out_.box.sides.push_back({symbols[i], range});
        out_.names.push_back(question_.decision.symbols[i].source);
      }
      for (const shapes::Guard& relation : declared.relations)
        out_.box.promised.push_back(relation.predicate);
    } catch (const shapes::ConstraintError& error) {
      return refused(out_.frame, error.what());
    }
    return {};
  }

  shapes::PointTrace trace_at(const shapes::SizePoint& point) {
    Decision decision = question_.decision;
    Observation seen = question_.observation;
    put(point, decision, seen);
    TraceConditions reliance;
    TraceSetup setup = question_.setup(decision, seen);
    setup.reliance = &reliance;
    Result<Graph> graph = trace(setup, question_.body);
    ExampleTrace& example = out_.examples.emplace_back();
    example.given = std::move(reliance.values);
    if (!graph) {
      example.error = graph.error();
      reliance.sizes.error = graph.error().message;
    } else {
      example.graph = std::make_shared<const Graph>(std::move(*graph));
      run(example, seen, point);
    }
    return std::move(reliance.sizes);
  }

  void run(ExampleTrace& example, const Observation& seen, const shapes::SizePoint& point) {
    if (!question_.run) {
      example.not_run = "examples are not run";
      return;
    }
    for (const Elements elements : {Elements::Given, Elements::Zero}) {
      auto inputs = example_inputs(seen, question_.values, elements);
      if (!inputs) {
        example.not_run = "its inputs are too large to run";
        return;
      }
      auto failed = failure_of(*example.graph, *std::move(inputs), point);
      if (!failed) {
        example.run_error.reset();
        return;
      }
      // Keeps the first failure: it arose with the program's own elements, so it is the most
      // useful.
      if (!example.run_error) example.run_error = std::move(failed);
    }
  }

  std::optional<Status> failure_of(const Graph& graph, Inputs inputs,
                                   const shapes::SizePoint& point) {
    const Result<std::vector<Array>> outputs = question_.run(graph, std::move(inputs));
    if (!outputs) return outputs.error();
    return other_sizes(graph, *outputs, [&](shapes::Symbol symbol) -> std::optional<std::int64_t> {
      for (std::size_t i = 0; i < point.size(); ++i)
        if (out_.box.sides[i].symbol == symbol) return point[i];
      return std::nullopt;
    });
  }

  InferQuestion question_;
  const InferOptions& options_;
  InferredFrame out_;
};

/// Makes a decision from the dims and ints of inputs.
class About {
 public:
  About(const Observation& seen, const std::optional<std::vector<SymbolDecision>>& symbols)
      : seen_(seen), all_(!symbols) {
    if (symbols)
      for (const SymbolDecision& symbol : *symbols) named_[symbol.source] = symbol;
  }

  Result<Decision> take() {
    const auto& sources = seen_.list->sources();
    for (std::size_t s = 0; s < sources.size(); ++s) {
      SourceDecision source{sources[s], {}};
      const std::span<const std::int64_t> values = seen_.of(s);
      for (std::size_t d = 0; d < values.size(); ++d)
        source.dims.push_back(dim(sources[s], d, values[d], seen_.mark(s, d)));
      out_.sources.push_back(std::move(source));
    }
    for (const Field& field : seen_.fields) out_.fields.push_back({field.spec, {field.value}});
    if (named_.empty()) return std::move(out_);
    return bad_input(
        fmt::format("infer: the inputs have no size or int {}", named_.begin()->first));
  }

 private:
  DimDecision dim(const SourceSpec& spec, std::size_t d, std::int64_t value, Mark mark) {
    if (spec.kind == Kind::Bool) return {.value = value};
    const bool is_size = spec.kind == Kind::Tensor;
    SymbolDecision symbol;
    symbol.source = is_size ? size_text(spec.name, d) : spec.name;
    if (all_) {
      if (mark == Mark::Static) return {.value = value};
      symbol.settled = mark == Mark::None;
    } else {
      const auto named = named_.extract(symbol.source);
      if (named.empty()) return {.value = value};
      symbol = named.mapped();
    }
    symbol.unbacked = symbol.unbacked || mark == Mark::Unbacked;
    symbol.pinned_is_error = symbol.pinned_is_error || mark == Mark::Dynamic;
    symbol.min = is_size ? std::optional<std::int64_t>(0) : std::nullopt;
    symbol.hint = value;
    out_.symbols.push_back(std::move(symbol));
    return {.is_symbol = true, .symbol = static_cast<std::uint32_t>(out_.symbols.size() - 1)};
  }

  const Observation& seen_;
  bool all_;
  std::map<std::string, SymbolDecision> named_;  // without those already found among the inputs
  Decision out_;
};

}  // namespace

Result<InferredFrame> infer_classes(InferQuestion question, const InferOptions& options) {
  return Inference(std::move(question), options).run();
}

Result<Decision> decision_about(const Observation& observation,
                                const std::optional<std::vector<SymbolDecision>>& symbols) {
  return About(observation, symbols).take();
}

}  // namespace lockstep::worker
