#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/shapes/fixed_symbols.h>
#include <lockstep/worker/agree/agreement/recompile_advice.h>

namespace lockstep::worker {
namespace {

/// One element of a list in the name of a source: "xs[12].mask" is element 12 of xs, then ".mask".
struct Place {
  std::string_view list, rest;
  std::size_t index = 0;
};

/// Places in the order of their brackets. A key of a map is in quotes, so it is no element.
std::vector<Place> places_in(std::string_view name) {
  std::vector<Place> out;
  for (std::size_t open = name.find('['); open != name.npos; open = name.find('[', open + 1)) {
    std::size_t end = open + 1, index = 0;
    for (; end < name.size() && name[end] >= '0' && name[end] <= '9' && end < open + 10; ++end)
      index = 10 * index + static_cast<std::size_t>(name[end] - '0');
    if (end > open + 1 && end < name.size() && name[end] == ']')
      out.push_back({name.substr(0, open), name.substr(end + 1), index});
  }
  return out;
}

using Sources = std::vector<SourceDecision>;

/// Number of elements of each list.
std::map<std::string_view, std::size_t> lengths_of(const Sources& sources) {
  std::map<std::string_view, std::size_t> out;
  for (const SourceDecision& source : sources)
    for (const Place& place : places_in(source.spec.name)) {
      std::size_t& length = out[place.list];
      length = std::max(length, place.index + 1);
    }
  return out;
}

/// The sources without the elements of `list` from `length` on.
std::vector<SourceSpec> shortened(const Sources& sources, std::string_view list,
                                  std::size_t length) {
  std::vector<SourceSpec> out;
  for (const SourceDecision& source : sources) {
    const std::vector<Place> places = places_in(source.spec.name);
    if (std::ranges::none_of(places, [&](const Place& place) {
          return place.list == list && place.index >= length;
        }))
      out.push_back(source.spec);
  }
  return out;
}

bool differ_in_length_only(const Sources& a, const Sources& b, std::string_view list,
                           std::size_t shorter) {
  return shortened(a, list, shorter) == shortened(b, list, shorter);
}

/// "2, 3 and 5"
std::string counted(const std::set<std::size_t>& numbers) {
  const std::size_t last = *numbers.rbegin();
  std::vector<std::size_t> others(numbers.begin(), std::prev(numbers.end()));
  return fmt::format("{} and {}", fmt::join(others, ", "), last);
}

/// Omits the number itself, so that the text is the same for all numbers and is reported once.
std::string number_text(const shapes::Guard& guard, const SymbolDecision& symbol) {
  return fmt::format(
      "{} makes {} a number, so each of its values is an entry of its own; compute with the SymInt "
      "itself in place of to_int(), select with where() in place of a branch, or {}",
      guard.where.text(), symbol.source,
      symbol.min ? "mark the dim static if it never varies" : "pass it as a 0-d tensor");
}

}  // namespace

std::vector<std::string> numbers_again(const Entry& entry) {
  const std::vector<SymbolDecision>& decided = entry.decision.symbols;
  std::vector<std::string> out;
  if (std::ranges::none_of(decided, &SymbolDecision::settled)) return out;
  const std::vector<shapes::Symbol> symbols = entry.decision.trace_symbols();
  for (const shapes::FixedSymbol& fixed : shapes::fixed_symbols(entry.guard_set())) {
    const auto at = std::ranges::find(symbols, fixed.symbol);
    if (at == symbols.end()) continue;
    const SymbolDecision& symbol = decided[static_cast<std::size_t>(at - symbols.begin())];
    if (!symbol.settled) continue;
    out.push_back(number_text(entry.guards[fixed.guard], symbol));
  }
  return out;
}

std::vector<std::string> growing_lists(const std::vector<Entry>& entries) {
  std::vector<std::string> out;
  if (entries.size() < 3) return out;
  const Sources& newest = entries.back().decision.sources;
  std::map<std::string_view, std::set<std::size_t>> seen;  // lengths, by list
  const auto lengths = lengths_of(newest);
  for (const Entry& entry : entries) {
    const Sources& sources = entry.decision.sources;
    const auto others = lengths_of(sources);
    for (const auto& [list, length] : lengths) {
      const auto known = others.find(list);
      const std::size_t other = known == others.end() ? 0 : known->second;
      if (other != length && differ_in_length_only(sources, newest, list, std::min(other, length)))
        seen[list].insert(other);
    }
  }
  for (auto& [list, others] : seen) {
    if (others.size() < 2) continue;
    others.insert(lengths.at(list));
    out.push_back(fmt::format(
        "the list {} has come with {} elements, and each length is an entry of its own; stack the "
        "elements into one tensor, whose size may vary, or pad the list to one length",
        list.empty() ? "of inputs" : list, counted(others)));
  }
  return out;
}

std::string limit_text(std::string_view frame, const DecisionConfig& config,
                       const std::vector<Misfit>& misfits) {
  const std::string cause = misfits.empty()
                                ? "this rank's inputs fit entries that other ranks' do not"
                                : fmt::format("entry {} does not fit here: {}",
                                              misfits.back().entry, misfits.back().reason);
  const char* cure = !config.automatic_dynamic
                         ? "turn automatic_dynamic on, mark the dims that vary dynamic"
                     : !config.settle ? "turn settle on, mark the dims that vary dynamic"
                                      : "keep the lines that such guards name from fixing a size";
  return fmt::format(
      "{} has reached its recompile limit of {}; calls that fit no entry are "
      "interpreted from here on, on all ranks ({}); {}, or raise recompile_limit",
      frame, config.recompile_limit, cause, cure);
}

std::vector<std::string> recompile_advice(const std::vector<Entry>& entries) {
  std::vector<std::string> out = growing_lists(entries);
  std::vector<std::string> numbers = numbers_again(entries.back());
  std::ranges::move(numbers, std::back_inserter(out));
  return out;
}

}  // namespace lockstep::worker
