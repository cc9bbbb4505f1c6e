#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/exchange.h>

namespace lockstep::worker {
namespace {

/// True if a dim is a symbol by its marks or by the sizes seen so far.
bool varies(const SourceCell& cell, std::size_t dim) {
  const DimCell& seen = cell.dims[dim];
  if (seen.marked(Mark::Dynamic) || seen.marked(Mark::Unbacked)) return true;
  if (seen.marked(Mark::Static)) return false;
  return seen.marked(Mark::MaybeDynamic) || seen.marked(Mark::Uniform) || cell.size_dynamic(dim);
}

bool symbolic_dim(const SourceCell& cell, std::size_t dim) {
  return varies(cell, dim) || (cell.settled && !cell.dims[dim].marked(Mark::Static));
}

bool symbolic_int(const SourceCell& cell) { return cell.settled || cell.scalar_dynamic(); }

/// The lower bound of every backed tensor symbol of the entry: one bound for all, so that a frame
/// that gets an empty batch needs only one more compile.
std::int64_t lower_bound(const JointObservation& joint, const DecisionConfig& config) {
  const auto settled = [](const SourceCell& cell) { return cell.settled; };
  if (!config.assume_at_least_two || std::ranges::any_of(joint.sources, settled)) return 0;
  for (const JointSymbol& symbol : joint_symbols(joint)) {
    if (!symbol.dim || symbol.unbacked) continue;
    if (joint.sources[symbol.source].smallest(*symbol.dim) < 2) return 0;
  }
  return 2;
}

/// One source on one rank.
struct Subject {
  SourceSpec spec;
  bool truth = false;
  const SourceCell* cell = nullptr;
};

/// Makes a decision, subject by subject. Requires that each subject's cell has its kind and dims.
class Decider {
 public:
  explicit Decider(std::int64_t lower) : lower_(lower) {}

  void add(const Subject& subject) {
    SourceDecision source{subject.spec, {}};
    const SourceCell& cell = *subject.cell;
    switch (subject.spec.kind) {
      case Kind::Float:
        break;
      case Kind::Bool:
        source.dims.push_back({.value = subject.truth ? 1 : 0});
        break;
      case Kind::Int:
        source.dims.push_back(symbolic_int(cell) ? symbol({.source = std::string(cell.name),
                                                           .min = std::nullopt,
                                                           .hint = cell.number->first,
                                                           .settled = !cell.scalar_dynamic()})
                                                 : DimDecision{.value = cell.number->first});
        break;
      case Kind::Tensor:
        for (std::size_t d = 0; d < subject.spec.ndim; ++d) source.dims.push_back(dim(cell, d));
    }
    out_.sources.push_back(std::move(source));
  }
  Decision take() && { return std::move(out_); }

 private:
  DimDecision dim(const SourceCell& cell, std::size_t d) {
    const DimCell& seen = cell.dims[d];
    if (!symbolic_dim(cell, d)) return {.value = seen.first};
    const bool unbacked = seen.marked(Mark::Unbacked);
    return symbol({.source = size_text(cell.name, d),
                   .unbacked = unbacked,
                   .min = unbacked ? 0 : lower_,
                   .hint = seen.first,
                   .pinned_is_error = seen.marked(Mark::Dynamic),
                   .settled = !varies(cell, d)});
  }
  DimDecision symbol(SymbolDecision made) {
    out_.symbols.push_back(std::move(made));
    return {.is_symbol = true, .symbol = static_cast<std::uint32_t>(out_.symbols.size() - 1)};
  }

  std::int64_t lower_;
  Decision out_;
};

std::string text_of(const Decision& decision, bool hints) {
  std::string out;
  for (const SourceDecision& source : decision.sources) {
    std::string dims;
    for (const DimDecision& dim : source.dims)
      dims += fmt::format("{}{}{}", dims.empty() ? "" : ", ", dim.is_symbol ? "s" : "",
                          dim.is_symbol ? dim.symbol : dim.value);
    if (source.spec.kind == Kind::Bool) dims = source.dims[0].value != 0 ? "true" : "false";
    out += fmt::format("{}{}: ", out.empty() ? "" : "; ", source.spec.name);
    if (source.spec.kind == Kind::Tensor)
      out += fmt::format("{}[{}]", dtype_name(source.spec.dtype), dims);
    else
      out += fmt::format("{}{}{}", kind_name(source.spec.kind), dims.empty() ? "" : " ", dims);
  }
  for (std::size_t i = 0; i < decision.symbols.size(); ++i) {
    const SymbolDecision& symbol = decision.symbols[i];
    out += fmt::format("{}s{} = {}{}{}", i == 0 ? " | " : ", ", i, symbol.source,
                       symbol.unbacked ? " unbacked" : "", symbol.pinned_is_error ? " pinned" : "");
    if (symbol.min) out += fmt::format(" min {}", *symbol.min);
    if (hints) out += fmt::format(" hint {}", symbol.hint);
  }
  for (std::size_t i = 0; i < decision.fields.size(); ++i)
    out += fmt::format("{}{} = {}", i == 0 ? " | " : "; ", decision.fields[i].spec.name,
                       joined_text(decision.fields[i]));
  return out;
}

/// The joined fields. Requires that no field is in conflict.
std::vector<JoinedField> fields_of(const JointObservation& joint) {
  std::vector<JoinedField> out;
  for (const FieldCell& cell : joint.fields) out.push_back({cell.spec, cell.values});
  return out;
}

}  // namespace

std::vector<JointSymbol> joint_symbols(const JointObservation& joint) {
  std::vector<JointSymbol> out;
  for (std::size_t s = 0; s < joint.sources.size(); ++s) {
    const SourceCell& cell = joint.sources[s];
    if (cell.number != nullptr && symbolic_int(cell)) out.push_back({s, std::nullopt, false});
    for (std::size_t d = 0; d < cell.dims.size(); ++d)
      if (symbolic_dim(cell, d)) out.push_back({s, d, cell.dims[d].marked(Mark::Unbacked)});
  }
  return out;
}

Decision decide(const JointObservation& joint, const DecisionConfig& config) {
  Decider decider(lower_bound(joint, config));
  for (const SourceCell& cell : joint.sources) {
    const SourceCell::First& first = cell.first;
    decider.add(
        {{std::string(cell.name), first.kind, first.dtype, first.ndim}, first.truth, &cell});
  }
  Decision out = std::move(decider).take();
  out.fields = fields_of(joint);
  return out;
}

Result<Decision> decide_for(const Observation& own, const JointObservation& joint,
                            const DecisionConfig& config) {
  Decider decider(lower_bound(joint, config));
  const std::vector<SourceSpec>& specs = own.list->sources();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto cell = std::lower_bound(
        joint.sources.begin(), joint.sources.end(), specs[i].name,
        [](const SourceCell& c, const std::string& name) { return c.name < name; });
    if (cell == joint.sources.end() || cell->name != specs[i].name || !cell->has(specs[i].kind) ||
        cell->greatest_ndim < specs[i].ndim)
      return internal_error(
          fmt::format("the joined observations lack {}, which this rank observed; this "
                      "is a bug of lockstep, please report it with the record",
                      specs[i].name),
          specs[i].name);
    const bool truth = specs[i].kind == Kind::Bool && own.of(i)[0] != 0;
    decider.add({specs[i], truth, &*cell});
  }
  Decision out = std::move(decider).take();
  out.fields = fields_of(joint);
  return out;
}

bool supersedes(const Decision& newer, const Decision& older) {
  if (newer.sources != older.sources || newer.symbols.size() != older.symbols.size()) return false;
  for (std::size_t i = 0; i < newer.symbols.size(); ++i) {
    const SymbolDecision& n = newer.symbols[i];
    const SymbolDecision& o = older.symbols[i];
    if (n.unbacked != o.unbacked || n.min.has_value() != o.min.has_value()) return false;
    if (n.min && *o.min < *n.min) return false;
  }
  return std::equal(newer.fields.begin(), newer.fields.end(), older.fields.begin(),
                    older.fields.end(),
                    [](const JoinedField& n, const JoinedField& o) { return n.absorbs(o); });
}

shapes::Fingerprint Decision::digest() const {
  shapes::FingerprintBuilder builder;
  for (const SourceDecision& source : sources) {
    builder.add(source.spec.name).add(static_cast<std::int64_t>(source.spec.kind));
    builder.add(static_cast<std::int64_t>(source.spec.dtype));
    builder.add(static_cast<std::int64_t>(source.dims.size()));
    for (const DimDecision& dim : source.dims) {
      builder.add(dim.is_symbol ? std::int64_t{1} : std::int64_t{0});
      builder.add(dim.is_symbol ? std::int64_t{dim.symbol} : dim.value);
    }
  }
  for (const SymbolDecision& symbol : symbols) {
    builder.add(symbol.source).add(std::int64_t{symbol.unbacked});
    builder.add(std::int64_t{symbol.min.has_value()}).add(symbol.min.value_or(0));
  }
  for (const JoinedField& field : fields) {
    builder.add(field.spec.name).add(spec_text(field.spec));
    builder.add(static_cast<std::int64_t>(field.values.size()));
    for (const FieldValue& value : field.values) builder.add(value.number).add(value.bytes);
  }
  return builder.finish();
}

std::shared_ptr<const SourceList> Decision::list() const {
  std::vector<SourceSpec> specs;
  for (const SourceDecision& source : sources) specs.push_back(source.spec);
  return std::make_shared<const SourceList>(std::move(specs));
}

const JoinedField* Decision::field(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const JoinedField& field) {
    return field.spec.name == name;
  });
  return found == fields.end() ? nullptr : &*found;
}

std::vector<shapes::Symbol> Decision::trace_symbols() const {
  std::vector<shapes::Symbol> out;
  std::uint32_t backed = 0;
  std::uint32_t unbacked = 0;
  for (const SymbolDecision& symbol : symbols)
    out.push_back({symbol.unbacked, symbol.unbacked ? unbacked++ : backed++});
  return out;
}

std::vector<shapes::Symbol> Decision::host_symbols(std::size_t count) const {
  std::uint32_t backed = 0;
  for (const SymbolDecision& symbol : symbols) backed += symbol.unbacked ? 0 : 1;
  std::vector<shapes::Symbol> out;
  while (out.size() < count) out.push_back({false, backed++});
  return out;
}

shapes::Namer Decision::source_namer(const std::vector<HostValue>& values) const {
  std::map<shapes::Symbol, std::string> names;
  const std::vector<shapes::Symbol> named = trace_symbols();
  for (std::size_t i = 0; i < named.size(); ++i) names[named[i]] = symbols[i].source;
  const std::vector<shapes::Symbol> computed = host_symbols(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) names[computed[i]] = values[i].text();
  return [names = std::move(names)](shapes::Symbol symbol) {
    const auto name = names.find(symbol);
    return name == names.end() ? symbol.name() : name->second;
  };
}

std::optional<std::int64_t> value_of(const HostValue& value, const Observation& observation) {
  return value.evaluate([&](std::string_view source) { return scalar_of(observation, source); });
}

std::string decision_text(const Decision& decision) { return text_of(decision, true); }

}  // namespace lockstep::worker
