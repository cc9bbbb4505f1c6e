#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/code_cache.h>

namespace lockstep::worker {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

void put(shapes::FingerprintBuilder& builder, const shapes::Seen& seen) {
  builder.add(static_cast<std::int64_t>(seen.state)).add(seen.value);
}

void put(shapes::FingerprintBuilder& builder, const shapes::SeenDims& dims) {
  builder.add(static_cast<std::int64_t>(dims.state));
  builder.add(static_cast<std::int64_t>(dims.dims.size()));
  for (const shapes::Seen& seen : dims.dims) put(builder, seen);
}

shapes::Fingerprint digest_of(const FrameState::value_type& source) {
  shapes::FingerprintBuilder builder;
  builder.add(source.first);
  put(builder, source.second.scalar);
  put(builder, source.second.size);
  for (const std::int64_t v : source.second.smallest) builder.add(v);
  return builder.finish();
}

shapes::Fingerprint digest_of(const Entry& entry, std::size_t index) {
  shapes::FingerprintBuilder builder;
  builder.add(static_cast<std::int64_t>(index)).add(entry.reported_digest);
  return builder.add(std::int64_t{entry.superseded}).finish();
}

void add(shapes::Fingerprint& sum, const shapes::Fingerprint& part) {
  sum.low += part.low;
  sum.high += part.high + (sum.low < part.low ? 1 : 0);
}
void subtract(shapes::Fingerprint& sum, const shapes::Fingerprint& part) {
  sum.high -= part.high + (sum.low < part.low ? 1 : 0);
  sum.low -= part.low;
}

/// Mixes the dims marked uniform into `digest`. Sources are identified by name, because under
/// shared_sizes the lists of ranks differ.
std::uint64_t marks_into(std::uint64_t digest, const Observation& observation) {
  const SourceList& list = *observation.list;
  for (std::size_t s = 0; s < list.sources().size(); ++s)
    for (std::size_t d = 0; d < observation.of(s).size(); ++d) {
      if (observation.mark(s, d) != Mark::Uniform) continue;
      const shapes::Fingerprint name = shapes::fingerprint(list.sources()[s].name);
      digest = mixed(mixed(digest, static_cast<std::int64_t>(name.low ^ d)), observation.of(s)[d]);
    }
  return digest;
}

/// Name of value `at` of a source, as users write it.
std::string value_name(const SourceSpec& spec, std::size_t at) {
  return spec.kind == Kind::Tensor ? size_text(spec.name, at) : spec.name;
}

/// True if the fields are equal. The result must be the same on all ranks of a call, so only values
/// joined by `equal` are compared: other values may differ between ranks.
bool same_fields(const std::vector<JoinedField>& joined, const std::vector<Field>& own) {
  return std::equal(joined.begin(), joined.end(), own.begin(), own.end(),
                    [](const JoinedField& j, const Field& o) {
                      return j.spec == o.spec && (j.spec.join != FieldJoin::Equal || j.absorbs(o));
                    });
}

std::string_view use_name(bool symbol, bool unbacked) {
  return unbacked ? "unbacked" : symbol ? "dynamic" : "static";
}

}  // namespace

Entry Entry::make(Decision decision, Decision reported, std::shared_ptr<const SourceList> list,
                  std::vector<shapes::Guard> guards, shapes::Fingerprint graph,
                  std::vector<GroupGuard> group_guards, std::vector<HostValue> host_values,
                  std::vector<UniformSize> uniform) {
  Entry entry;
  const std::vector<shapes::Symbol> symbols = decision.trace_symbols();
  std::vector<shapes::Symbol> slots;
  std::uint32_t unused = std::numeric_limits<std::uint32_t>::max();
  for (const SourceDecision& source : decision.sources) {
    for (const DimDecision& dim : source.dims) {
      if (!dim.is_symbol) {
        entry.lower_.push_back(dim.value);
        entry.upper_.push_back(dim.value);
        entry.uses_.push_back(Use::Static);
        slots.push_back({true, unused--});  // a static value has no symbol of its own
        continue;
      }
      const SymbolDecision& symbol = decision.symbols[dim.symbol];
      entry.lower_.push_back(symbol.min.value_or(kLowest));
      entry.upper_.push_back(kHighest);
      entry.uses_.push_back(symbol.unbacked ? Use::Unbacked : Use::Symbol);
      slots.push_back(symbols[dim.symbol]);
    }
  }
  for (const shapes::Symbol symbol : decision.host_symbols(host_values.size()))
    slots.push_back(symbol);
  entry.program_ = shapes::GuardProgram::compile(guards, slots);
  entry.group_program_ = GroupGuardProgram::compile(group_guards, slots);
  if (!uniform.empty()) entry.uniform_values_ = UniformValues(uniform, slots);
  entry.uniform = std::move(uniform);
  entry.host_values = std::move(host_values);
  entry.group_guards = std::move(group_guards);
  entry.decision = std::move(decision);
  entry.reported_digest = reported.digest();
  entry.reported = std::move(reported);
  entry.guards = std::move(guards);
  entry.graph = graph;
  entry.list_ = std::move(list);
  return entry;
}

bool Entry::same_structure(const Observation& observation) const {
  if (!same_sources(*observation.list)) return false;
  for (std::size_t s = 0; s < decision.sources.size(); ++s)
    if (decision.sources[s].spec.kind == Kind::Bool &&
        decision.sources[s].dims[0].value != observation.of(s)[0])
      return false;
  return same_fields(decision.fields, observation.fields);
}

bool Entry::fits(const Observation& observation) const {
  if (!same_sources(*observation.list)) return false;
  if (!(decision.fields.empty() && observation.fields.empty()) &&
      !absorb(decision.fields, observation.fields))
    return false;
  const std::int64_t* value = observation.values.data();
  const std::int64_t* lower = lower_.data();
  const std::int64_t* upper = upper_.data();
  const std::size_t count = lower_.size();
  // Tests the values in blocks: there is no branch per value, and an entry that does not fit is
  // rejected early.
  constexpr std::size_t kBlock = 16;
  for (std::size_t block = 0; block < count; block += kBlock) {
    const std::size_t end = std::min(count, block + kBlock);
    bool inside = true;
    for (std::size_t i = block; i < end; ++i)
      inside &= lower[i] <= value[i] && value[i] <= upper[i];
    if (!inside) return false;
  }
  if (!observation.marks.empty() && !honours(observation.marks)) return false;
  std::vector<std::int64_t> room;
  const auto over = operands(observation, room);
  return over && program_.holds(*over) && group_program_.admits(*over);
}

std::optional<std::span<const std::int64_t>> Entry::operands(
    const Observation& observation, std::vector<std::int64_t>& room) const {
  if (host_values.empty()) return observation.values;
  room.reserve(observation.values.size() + host_values.size());
  room = observation.values;
  for (const HostValue& value : host_values) {
    const auto number = value_of(value, observation);
    if (!number) return std::nullopt;
    room.push_back(*number);
  }
  return room;
}

std::optional<std::size_t> Entry::failed_guard(const Observation& observation) const {
  std::vector<std::int64_t> room;
  const auto over = operands(observation, room);
  if (over) return program_.first_failure(*over);
  return guards.empty() ? std::nullopt : std::optional<std::size_t>(0);
}

bool Entry::witnesses(std::size_t question, const Observation& observation) const {
  std::vector<std::int64_t> room;
  const auto over = operands(observation, room);
  return over && group_program_.witnesses(question, *over);
}

std::uint64_t Entry::uniform_into(std::uint64_t digest, const Observation& observation) const {
  std::vector<std::int64_t> room;
  const auto over = operands(observation, room);
  return over ? uniform_values_.mixed_into(digest, *over) : digest;
}

std::vector<std::int64_t> Entry::uniform_values(const Observation& observation) const {
  std::vector<std::int64_t> room;
  const auto over = operands(observation, room);
  return over ? uniform_values_.of(*over) : std::vector<std::int64_t>(uniform.size());
}

std::optional<HostValue> Entry::changed_host_value(const Observation& a,
                                                   const Observation& b) const {
  if (!same_sources(*a.list) || !same_sources(*b.list)) return std::nullopt;
  for (const HostValue& value : host_values)
    if (value_of(value, a) != value_of(value, b)) return value;
  return std::nullopt;
}

shapes::Namer Entry::namer() const { return decision.source_namer(host_values); }

bool Entry::honours(const std::vector<Mark>& marks) const {
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == Mark::Dynamic && uses_[i] == Use::Static) return false;
    if (marks[i] == Mark::Unbacked && uses_[i] != Use::Unbacked) return false;
    if (marks[i] == Mark::Static && uses_[i] != Use::Static) return false;
  }
  return true;
}

shapes::GuardSet Entry::guard_set() const {
  shapes::GuardSet out{{}, guards};
  const std::vector<shapes::Symbol> symbols = decision.trace_symbols();
  for (std::size_t i = 0; i < symbols.size(); ++i)
    out.ranges[symbols[i]] = {decision.symbols[i].min.value_or(kLowest), kHighest};
  for (const shapes::Symbol symbol : decision.host_symbols(host_values.size()))
    out.ranges[symbol] = {kLowest, kHighest};
  return out;
}

bool Entry::replaces(const Entry& older) const {
  const auto answered = [&](const GroupGuard& guard) {
    return std::any_of(older.group_guards.begin(), older.group_guards.end(),
                       [&](const GroupGuard& g) { return g.same(guard); });
  };
  // A symbol must mean the same in both entries.
  if (!host_values.empty() && host_values != older.host_values) return false;
  const auto asked = [&](const UniformSize& size) {
    return std::any_of(older.uniform.begin(), older.uniform.end(),
                       [&](const UniformSize& s) { return s.same(size); });
  };
  return supersedes(decision, older.decision) && shapes::covers(guard_set(), older.guard_set()) &&
         std::all_of(group_guards.begin(), group_guards.end(), answered) &&
         std::all_of(uniform.begin(), uniform.end(), asked);
}

/// A mask with one bit for each entry that is not superseded, in order; set if `holds` is true of
/// the entry.
template <class Holds>
std::uint64_t CodeCache::mask_of(const Holds& holds) const {
  std::uint64_t mask = 0;
  std::uint64_t bit = 1;
  for (const Entry& entry : entries) {
    if (entry.superseded) continue;
    if (holds(entry)) mask |= bit;
    bit <<= 1;
  }
  return mask;
}

std::uint64_t CodeCache::lookup(const Observation& observation) const {
  return mask_of([&](const Entry& entry) { return entry.fits(observation); });
}

std::uint64_t CodeCache::uniform_digest(const Observation& observation) const {
  std::uint64_t digest = 0;
  for (const Entry& entry : entries)
    if (!entry.uniform.empty() && !entry.superseded && entry.same_sources(*observation.list))
      digest = entry.uniform_into(digest, observation);
  return observation.marks.empty() ? digest : marks_into(digest, observation);
}

int CodeCache::pick(std::uint64_t mask) const {
  int best = -1;
  for (std::size_t i = 0; i < entries.size() && mask != 0; ++i) {
    if (entries[i].superseded) continue;
    const bool fits = (mask & 1) != 0;
    mask >>= 1;
    if (!fits) continue;
    const auto symbols = entries[i].reported.symbols.size();
    if (best < 0 || symbols < entries[static_cast<std::size_t>(best)].reported.symbols.size())
      best = static_cast<int>(i);
  }
  return best;
}

int CodeCache::live() const {
  return static_cast<int>(std::count_if(entries.begin(), entries.end(),
                                        [](const Entry& entry) { return !entry.superseded; }));
}

bool CodeCache::at_limit(const DecisionConfig& config) const {
  return live() >= std::min(config.recompile_limit, kMaxEntries);
}

std::uint64_t CodeCache::alike(const Observation& observation) const {
  return mask_of([&](const Entry& entry) { return entry.same_structure(observation); });
}

bool CodeCache::settles_next(const DecisionConfig& config, std::uint64_t alike) const {
  const int half = (std::min(config.recompile_limit, kMaxEntries) + 1) / 2;
  return config.settle && !at_limit(config) && std::popcount(alike) + 1 >= half;
}

std::uint64_t CodeCache::replaced_by(const Entry& entry) const {
  return mask_of([&](const Entry& older) { return entry.replaces(older); });
}

CodeCache::CodeCache(std::string frame_name) : name(std::move(frame_name)) {
  forget_names();
  renew_digest();
}

void CodeCache::learn_names(const KnownNames& names) {
  if (!names.empty())
    dictionary_ = std::make_shared<const Dictionary>(merge(dictionary_->names(), names));
}

void CodeCache::forget_names() { dictionary_ = std::make_shared<const Dictionary>(); }

void CodeCache::adopt(FrameState stored) {
  // Both maps are in order of names. The digest of a source with equal states in both stays in the
  // sum.
  auto before = state.begin();
  auto after = stored.begin();
  while (before != state.end() || after != stored.end()) {
    const bool both = before != state.end() && after != stored.end();
    const int order = both ? before->first.compare(after->first) : after == stored.end() ? -1 : 1;
    if (order == 0 && before->second == after->second) {
      ++before;
      ++after;
      continue;
    }
    if (order <= 0) subtract(state_, digest_of(*before++));
    if (order >= 0) add(state_, digest_of(*after++));
  }
  state = std::move(stored);
  renew_digest();
}

int CodeCache::commit(Entry entry, FrameState joined, std::uint64_t replaced) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& older = entries[i];
    if (older.superseded) continue;
    if ((replaced & 1) != 0) {
      subtract(entries_, digest_of(older, i));
      older.superseded = true;
      add(entries_, digest_of(older, i));
    }
    replaced >>= 1;
  }
  entries.push_back(std::move(entry));
  add(entries_, digest_of(entries.back(), entries.size() - 1));
  adopt(std::move(joined));
  return static_cast<int>(entries.size()) - 1;
}

void CodeCache::renew_digest() {
  shapes::FingerprintBuilder builder;
  digest_ = builder.add(entries_).add(state_).finish().low;
}

namespace {

/// Text of the first value that is out of the entry's bounds, or of the first mark that the entry
/// does not honour.
std::optional<std::string> value_misfit(const Decision& decision, const Observation& observation) {
  for (std::size_t s = 0; s < decision.sources.size(); ++s) {
    const SourceDecision& source = decision.sources[s];
    for (std::size_t d = 0; d < source.dims.size(); ++d) {
      const DimDecision& dim = source.dims[d];
      const std::string name = value_name(source.spec, d);
      const std::int64_t value = observation.of(s)[d];
      if (!dim.is_symbol && value != dim.value)
        return source.spec.kind == Kind::Bool
                   ? fmt::format("{} is {}, the entry has {}", name, value != 0, dim.value != 0)
                   : fmt::format("{} is {}, the entry has {}", name, value, dim.value);
      const SymbolDecision* symbol = dim.is_symbol ? &decision.symbols[dim.symbol] : nullptr;
      if (symbol != nullptr && symbol->min && value < *symbol->min)
        return fmt::format("{} is {}, the entry needs at least {}", name, value, *symbol->min);
      const Mark mark = observation.mark(s, d);
      const bool unbacked = symbol != nullptr && symbol->unbacked;
      if ((mark == Mark::Dynamic && symbol == nullptr) || (mark == Mark::Unbacked && !unbacked) ||
          (mark == Mark::Static && symbol != nullptr))
        return fmt::format("{} is marked {}, in the entry it is {}", name, mark_name(mark),
                           use_name(symbol != nullptr, unbacked));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Misfit> CodeCache::explain(const Observation& observation) const {
  std::vector<Misfit> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (entry.superseded) continue;
    std::string reason;
    if (!entry.same_sources(*observation.list)) {
      reason = other_source(entry.list().sources(), *observation.list);
    } else if (auto misfit = value_misfit(entry.decision, observation)) {
      reason = std::move(*misfit);
    } else if (auto other = field_misfit(entry.decision.fields, observation.fields)) {
      reason = std::move(*other);
    } else if (const auto failed = entry.failed_guard(observation)) {
      const shapes::Guard& guard = entry.guards.at(*failed);
      reason = fmt::format("guard {} ({}) is false", guard.predicate.text(entry.namer()),
                           guard.where.text());
    } else {
      continue;
    }
    out.push_back({static_cast<int>(i), std::move(reason)});
  }
  return out;
}

}  // namespace lockstep::worker
