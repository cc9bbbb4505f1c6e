#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/simulator/cluster/cause.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator {
namespace {

/// Returns the name of the value at index `at`.
std::string name_at(const SourceList& list, std::size_t at) {
  const auto& starts = list.offsets();
  const auto behind = std::upper_bound(starts.begin(), starts.end(), at);
  const auto source = static_cast<std::size_t>(behind - starts.begin()) - 1;
  const SourceSpec& spec = list.sources()[source];
  return spec.kind == Kind::Tensor ? size_text(spec.name, at - starts[source]) : spec.name;
}

std::vector<Cause::Group> groups_of(const Scenario& scenario, std::size_t call,
                                    const SourceList& list, std::size_t at) {
  constexpr std::size_t kGroups = 6;
  std::map<std::int64_t, std::size_t> place;  // by value: its index in `out`
  std::vector<Cause::Group> out;
  visit_inputs(scenario, call,
               [&](const std::string&, const RankSet& ranks, const Observation& seen) {
                 if (seen.list->digest() != list.digest()) return;
                 const std::int64_t value = seen.values[at];
                 auto known = place.find(value);
                 if (known == place.end() && out.size() < kGroups) {
                   known = place.emplace(value, out.size()).first;
                   out.push_back({{}, value, value});
                 }
                 Cause::Group& group = known == place.end() ? out.back() : out[known->second];
                 group.least = std::min(group.least, value);
                 group.greatest = std::max(group.greatest, value);
                 group.ranks.add(ranks);
               });
  return out;
}

/// Returns a sentence about a field that differs between the two sides; nullopt if none does. A
/// cause that is a field has no groups of values.
std::optional<std::string> other_field(const Side& a, const Side& b) {
  const auto said = [](const Side& side, const std::string& name) {
    for (const Field& field : side.seen.fields)
      if (field.spec.name == name) return value_text(field.spec.type, field.value);
    return std::string("absent");
  };
  for (const Side* side : {&a, &b})
    for (const Field& field : side->seen.fields) {
      const std::string& name = field.spec.name;
      const std::string mine = said(a, name), theirs = said(b, name);
      if (mine != theirs)
        return fmt::format("rank {} gives {} as {}, rank {} as {}", a.rank.value, name, mine,
                           b.rank.value, theirs);
    }
  return std::nullopt;
}

bool is_dynamic(const std::string& use) { return use.starts_with("dynamic"); }

/// All symbols of a program share one lower bound. If the programs differ in it, returns the index
/// of the first size that is below 2 on one side only. Otherwise returns `at`.
std::size_t first_size_below_bound(const Side& a, const Side& b, std::size_t at) {
  if (!is_dynamic(a.uses[at]) || !is_dynamic(b.uses[at])) return at;
  for (std::size_t i = at; i < a.uses.size(); ++i)
    if (is_dynamic(a.uses[i]) && a.uses[i] != b.uses[i] &&
        (a.seen.values[i] < 2) != (b.seen.values[i] < 2))
      return i;
  return at;
}

std::string_view deed(const Side& side) {
  return side.compiled ? "compiles" : side.uses.empty() ? "falls back" : "reuses an entry";
}

}  // namespace

Cause cause_of(const Scenario& scenario, std::size_t call, const std::string& frame, const Side& a,
               const Side& b) {
  Cause out{.call = call, .frame = frame, .source = {}, .text = {}, .groups = {}};
  if (a.seen.list->digest() != b.seen.list->digest()) {
    out.text = fmt::format("ranks {} and {} bring other inputs", a.rank.value, b.rank.value);
    return out;
  }
  std::size_t at = a.seen.values.size();
  const bool both = !a.uses.empty() && !b.uses.empty();
  if (both)
    at = static_cast<std::size_t>(
        std::mismatch(a.uses.begin(), a.uses.end(), b.uses.begin()).first - a.uses.begin());
  const bool by_use = at < a.seen.values.size();
  if (by_use) at = first_size_below_bound(a, b, at);
  if (!by_use)
    if (auto field = other_field(a, b)) {
      out.text = *std::move(field);
      return out;
    }
  if (!by_use)
    at = static_cast<std::size_t>(
        std::mismatch(a.seen.values.begin(), a.seen.values.end(), b.seen.values.begin()).first -
        a.seen.values.begin());
  if (at == a.seen.values.size()) {
    out.text =
        fmt::format("rank {} {} and rank {} {}", a.rank.value, deed(a), b.rank.value, deed(b));
    return out;
  }
  out.source = name_at(*a.seen.list, at);
  out.text = by_use
                 ? fmt::format("rank {} takes {} as {}, rank {} as {}", a.rank.value, out.source,
                               a.uses[at], b.rank.value, b.uses[at])
                 : fmt::format("rank {} {} and rank {} {}: {} is {} on the one and {} on the other",
                               a.rank.value, deed(a), b.rank.value, deed(b), out.source,
                               a.seen.values[at], b.seen.values[at]);
  out.groups = groups_of(scenario, call, *a.seen.list, at);
  return out;
}

}  // namespace lockstep::worker::simulator
