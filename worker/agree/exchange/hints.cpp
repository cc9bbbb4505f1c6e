#include <algorithm>

#include <lockstep/worker/agree/exchange/exchange.h>
#include <lockstep/worker/agree/exchange/hints.h>

namespace lockstep::worker {
namespace {

/// This rank's value of a joint symbol, if its source has the symbol's kind and dim.
std::optional<std::int64_t> value_of(const JointObservation& joint, const JointSymbol& symbol,
                                     const Observation& own) {
  const auto i = own.list->find(joint.sources[symbol.source].name);
  if (!i) return std::nullopt;
  const SourceSpec& spec = own.list->sources()[*i];
  if (!symbol.dim) return spec.kind == Kind::Int ? std::optional(own.of(*i)[0]) : std::nullopt;
  if (spec.kind != Kind::Tensor || *symbol.dim >= spec.ndim) return std::nullopt;
  return own.of(*i)[*symbol.dim];
}

/// The place of each symbol in `decision`: (source, position within its dims).
std::vector<std::pair<std::size_t, std::size_t>> places(const Decision& decision) {
  std::vector<std::pair<std::size_t, std::size_t>> out(decision.symbols.size());
  for (std::size_t s = 0; s < decision.sources.size(); ++s) {
    const std::vector<DimDecision>& dims = decision.sources[s].dims;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d].is_symbol) out[dims[d].symbol] = {s, d};
  }
  return out;
}

}  // namespace

std::optional<Rank> known_donor(const JointObservation& joint) {
  // If lists differ, rank 0 may lack sources of other ranks, so the ranks elect a donor.
  bool first_qualifies = joint.same_list;
  for (const JointSymbol& symbol : joint_symbols(joint)) {
    if (!symbol.dim) continue;
    const DimCell& cell = joint.sources[symbol.source].dims[*symbol.dim];
    if (cell.greatest < 2) return Rank{0};
    if (cell.first < 2) first_qualifies = false;
  }
  return first_qualifies ? std::optional(Rank{0}) : std::nullopt;
}

bool qualifies_as_donor(const JointObservation& joint, const Observation& own) {
  const std::vector<JointSymbol> symbols = joint_symbols(joint);
  return std::all_of(symbols.begin(), symbols.end(), [&](const JointSymbol& symbol) {
    return !symbol.dim || value_of(joint, symbol, own).value_or(0) >= 2;
  });
}

Bytes encode_hints(const JointObservation& joint, const Observation& own) {
  ByteWriter out;
  for (const JointSymbol& symbol : joint_symbols(joint)) {
    const auto value = value_of(joint, symbol, own);
    out.u8(value ? 1 : 0);
    out.i64(value.value_or(0));
  }
  return std::move(out).take();
}

bool apply_hints(Decision& decision, const JointObservation& joint,
                 std::span<const std::byte> hints) {
  ByteReader in(hints);
  std::map<std::pair<std::string_view, std::optional<std::size_t>>, std::int64_t> donated;
  for (const JointSymbol& symbol : joint_symbols(joint)) {
    const bool has = in.u8() != 0;
    const std::int64_t value = in.i64();
    if (has) donated[{joint.sources[symbol.source].name, symbol.dim}] = value;
  }
  if (!in.ok() || !in.at_end()) return false;
  const auto where = places(decision);
  for (std::size_t i = 0; i < where.size(); ++i) {
    const SourceSpec& spec = decision.sources[where[i].first].spec;
    const auto dim = spec.kind == Kind::Tensor ? std::optional(where[i].second) : std::nullopt;
    const auto value = donated.find({spec.name, dim});
    if (value != donated.end()) decision.symbols[i].hint = value->second;
  }
  return true;
}

std::vector<std::int64_t> symbol_values(const Decision& decision, const Observation& own) {
  std::vector<std::int64_t> out;
  for (const auto& [source, position] : places(decision)) out.push_back(own.of(source)[position]);
  return out;
}

void use_own_hints(Decision& decision, const Observation& own) {
  const std::vector<std::int64_t> values = symbol_values(decision, own);
  for (std::size_t i = 0; i < values.size(); ++i) decision.symbols[i].hint = values[i];
}

}  // namespace lockstep::worker
