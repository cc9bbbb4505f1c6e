#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/shapes/facts/facts.h>
#include <lockstep/worker/agree/exchange/constraints.h>
#include <lockstep/worker/agree/exchange/source_guard.h>

namespace lockstep::worker {
namespace {

constexpr const char* kWhere = "the frame's declaration";

/// A decision in which every size and int of the observation is a symbol, numbered by its index
/// among the values.
Decision all_symbols(const Observation& observation) {
  Decision out;
  for (const SourceSpec& spec : observation.list->sources()) {
    SourceDecision source{spec, {}};
    const std::size_t count = observation.of(out.sources.size()).size();
    for (std::size_t d = 0; d < count; ++d) {
      source.dims.push_back({true, static_cast<std::uint32_t>(out.symbols.size()), 0});
      out.symbols.push_back({spec.kind == Kind::Tensor ? size_text(spec.name, d) : spec.name});
    }
    out.sources.push_back(std::move(source));
  }
  return out;
}

/// "x.size(0) is 3, n is 4"
std::string values_text(const shapes::Guard& guard, const Decision& symbols,
                        const std::vector<std::int64_t>& values) {
  std::string out;
  for (const shapes::Symbol symbol : guard.predicate.expr.symbols())
    out += fmt::format("{}{} is {}", out.empty() ? "" : ", ", symbols.symbols[symbol.serial].source,
                       values[symbol.serial]);
  return out;
}

/// The range that the predicate gives one symbol; nullopt: the predicate does not bound a single
/// symbol.
std::optional<std::pair<shapes::Symbol, shapes::Range>> bound_of(const shapes::Predicate& p) {
  if (p.relation != shapes::Predicate::Relation::NonNegative) return std::nullopt;
  const shapes::Direction d = shapes::direction_of(p.expr);
  const auto symbol = d.direction.as_symbol();
  if (!symbol) return std::nullopt;
  shapes::Facts facts;
  facts.add(p);
  return std::pair(*symbol, facts.range(d.direction));
}

}  // namespace

Constraints::Reading Constraints::read(std::string_view frame,
                                       const Observation& observation) const {
  Reading out;
  out.list = observation.list;
  const Decision symbols = all_symbols(observation);
  for (const std::string& text : texts_) {
    auto guard = read_guard(text, {kWhere, 0}, symbols);
    if (!guard) {
      out.unreadable = bad_input(fmt::format("frame {}: {}", frame, guard.error().message));
      return out;
    }
    if (*guard) out.guards.push_back(**std::move(guard));
  }
  const std::vector<shapes::Symbol> slots = symbols.trace_symbols();
  out.program = shapes::GuardProgram::compile(out.guards, slots);
  const std::vector<std::uint32_t>& offsets = observation.list->offsets();
  for (std::size_t s = 0; s < symbols.sources.size(); ++s) {
    if (symbols.sources[s].spec.kind != Kind::Tensor) continue;
    for (std::size_t place = offsets[s]; place < offsets[s + 1]; ++place)
      if (std::any_of(out.guards.begin(), out.guards.end(), [&](const shapes::Guard& guard) {
            const auto named = guard.predicate.expr.symbols();
            return std::find(named.begin(), named.end(), slots[place]) != named.end();
          }))
        out.dims.push_back(place);
  }
  return out;
}

std::optional<Status> Constraints::apply(std::string_view frame, Observation& observation) {
  if (texts_.empty()) return std::nullopt;
  const bool known = reading_.list && (reading_.list == observation.list ||
                                       reading_.list->digest() == observation.list->digest());
  if (!known) reading_ = read(frame, observation);
  if (reading_.unreadable) return reading_.unreadable;
  if (const auto failed = reading_.program.first_failure(observation.values)) {
    const shapes::Guard& guard = reading_.guards[*failed];
    const Decision symbols = all_symbols(observation);
    return Status{Code::ConstraintViolation,
                  fmt::format("frame {}: `{}` was declared for every call, but {}; correct the "
                              "input or the declaration",
                              frame, guard.predicate.text(symbols.source_namer()),
                              values_text(guard, symbols, observation.values))};
  }
  if (observation.marks.empty() && !reading_.dims.empty())
    observation.marks.assign(observation.values.size(), Mark::None);
  for (const std::size_t place : reading_.dims)
    if (Mark& mark = observation.marks[place]; mark == Mark::None || mark == Mark::MaybeDynamic)
      mark = Mark::Dynamic;
  return std::nullopt;
}

DeclaredSizes declared_sizes(const std::vector<std::string>& texts, const Decision& decision) {
  DeclaredSizes out;
  for (const std::string& text : texts) {
    auto guard = read_guard(text, {kWhere, 0}, decision);
    if (!guard) throw shapes::ConstraintError(guard.error().message);
    if (!*guard) continue;
    if (const auto bound = bound_of((*guard)->predicate)) {
      shapes::Range& range = out.ranges[bound->first];
      range = shapes::intersect(range, bound->second);
    } else {
      out.relations.push_back(**std::move(guard));
    }
  }
  return out;
}

}  // namespace lockstep::worker
