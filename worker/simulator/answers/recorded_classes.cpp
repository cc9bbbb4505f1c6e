#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/infer_request.h>
#include <lockstep/worker/simulator/answers/recorded_classes.h>

namespace lockstep::worker::simulator {
namespace {

using shapes::Expr;
using shapes::Guard;

/// Entries of one structure.
class Structure {
 public:
  Structure(std::string group, std::string frame, std::string name) {
    out_.group = std::move(group);
    out_.frame = std::move(frame);
    out_.structure = std::move(name);
  }
  void add(int number, const Entry& entry) { entries_.emplace_back(number, &entry); }
  [[nodiscard]] const std::string& name() const { return out_.structure; }

  RecordedClasses take(const shapes::Range& box) {
    const Decision& first = entries_.front().second->decision;
    for (std::size_t s = 0; s < first.sources.size(); ++s)
      for (std::size_t d = 0; d < first.sources[s].dims.size(); ++d)
        if (is_side(s, d)) add_side(s, d, box);
    std::vector<std::vector<Guard>> classes;
    for (const auto& [number, entry] : entries_) {
      out_.entries.push_back(served_by(number, *entry));
      if (out_.entries.back().given.empty()) classes.push_back(out_.entries.back().guards);
    }
    out_.unserved = unserved_in(out_.box, classes);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_side(std::size_t s, std::size_t d) const {
    const DimDecision& first = entries_.front().second->decision.sources[s].dims[d];
    return std::ranges::any_of(entries_, [&](const auto& entry) {
      const DimDecision& dim = entry.second->decision.sources[s].dims[d];
      return dim.is_symbol || dim.value != first.value;
    });
  }

  void add_side(std::size_t s, std::size_t d, const shapes::Range& box) {
    const SourceSpec& spec = entries_.front().second->decision.sources[s].spec;
    SymbolDecision symbol;
    symbol.source = spec.kind == Kind::Tensor ? size_text(spec.name, d) : spec.name;
    std::size_t most = 0;
    for (const auto& [number, entry] : entries_) {
      const DimDecision& dim = entry->decision.sources[s].dims[d];
      if (!dim.is_symbol || entry->decision.symbols.size() < most) continue;
      most = entry->decision.symbols.size();
      symbol = entry->decision.symbols[dim.symbol];
    }
    sides_[{s, d}] = {false, static_cast<std::uint32_t>(out_.box.sides.size())};
    out_.box.sides.push_back({sides_[{s, d}], box});
    out_.names.push_back(symbol.source);
    out_.symbols.push_back(std::move(symbol));
  }

  /// What the entry requires of the sides: bounds and constants of its decision, then its guards.
  ServedSizes served_by(int number, const Entry& entry) {
    ServedSizes out{.entry = number, .guards = {}, .given = {}, .served = {}};
    std::map<shapes::Symbol, Expr> as_side;
    const std::vector<shapes::Symbol> symbols = entry.decision.trace_symbols();
    for (const auto& [place, side] : sides_) {
      const DimDecision& dim = entry.decision.sources[place.first].dims[place.second];
      const Expr size = Expr::symbol(side);
      if (!dim.is_symbol) {
        out.guards.push_back({shapes::equal(size, dim.value), {}, "a constant of the entry"});
        continue;
      }
      as_side[symbols[dim.symbol]] = size;
      if (const auto min = entry.decision.symbols[dim.symbol].min; min && *min > 0)
        out.guards.push_back(
            {shapes::greater_equal(size, *min), {}, "no smaller size had been seen"});
    }
    for (const Guard& guard : entry.guards) add(guard, entry, as_side, out);
    for (const GroupGuard& guard : entry.group_guards)
      add({guard.value ? guard.predicate : guard.predicate.negated(), guard.where,
           "of the group, all of whose ranks are taken to be alike"},
          entry, as_side, out);
    out.served = served_in(out_.box, out.guards);
    return out;
  }

  static void add(const Guard& guard, const Entry& entry,
                  const std::map<shapes::Symbol, Expr>& as_side, ServedSizes& out) {
    const std::vector<shapes::Symbol> symbols = guard.predicate.expr.symbols();
    if (std::ranges::all_of(symbols, [&](auto symbol) { return as_side.contains(symbol); }))
      out.guards.push_back({guard.predicate.substitute(as_side), guard.where, guard.note});
    else
      out.given.push_back(
          fmt::format("{}   # {}", guard.predicate.text(entry.namer()), guard.where.text()));
  }

  RecordedClasses out_;
  std::vector<std::pair<int, const Entry*>> entries_;
  std::map<std::pair<std::size_t, std::size_t>, shapes::Symbol> sides_;  // by source and dim
};

}  // namespace

std::vector<RecordedClasses> recorded_classes(const Replay& replay, const shapes::Range& box) {
  std::vector<RecordedClasses> out;
  for (const auto& [at, frame] : replay.frames) {
    std::vector<Structure> structures;
    for (std::size_t i = 0; i < frame.entries.size(); ++i) {
      const Entry& entry = frame.entries[i];
      if (entry.superseded) continue;
      const std::string name = structure_of(entry.decision);
      auto same = std::ranges::find(structures, name, &Structure::name);
      if (same == structures.end())
        same = structures.insert(structures.end(), Structure(at.first, at.second, name));
      same->add(static_cast<int>(i), entry);
    }
    for (Structure& structure : structures) out.push_back(structure.take(box));
  }
  return out;
}

}  // namespace lockstep::worker::simulator
