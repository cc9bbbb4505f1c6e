#include <algorithm>

#include <lockstep/shapes/facts/knowledge.h>
#include <lockstep/shapes/fixed_symbols.h>

namespace lockstep::shapes {

std::vector<FixedSymbol> fixed_symbols(const GuardSet& set) {
  Knowledge known;
  std::vector<Symbol> open;
  for (const auto& [symbol, range] : set.ranges) {
    known.add(symbol, range);
    if (!known.number(symbol)) open.push_back(symbol);
  }
  std::vector<FixedSymbol> out;
  for (std::size_t i = 0; i < set.guards.size(); ++i) {
    if (!known.learn(set.guards[i].predicate)) return {};  // the set admits no sizes
    std::erase_if(open, [&](const Symbol symbol) {
      const auto value = known.number(symbol);
      if (value) out.push_back({symbol, *value, i});
      return value.has_value();
    });
  }
  return out;
}

}  // namespace lockstep::shapes
