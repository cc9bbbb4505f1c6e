#include <lockstep/coordinator/store/archive.h>
#include <lockstep/worker/files/saved/start_entries.h>
#include <lockstep/worker/files/saved/stored_archive.h>
#include <lockstep/worker/files/saved/stored_parts.h>

CEREAL_CLASS_VERSION(lockstep::worker::StoredStarts, 1)

namespace lockstep::worker {
namespace {

constexpr std::string_view kEntriesKind = "entries";

void need_known(const shapes::Expr& expr, const std::vector<shapes::Symbol>& known) {
  for (const shapes::Symbol symbol : expr.symbols())
    if (symbol.unbacked || std::ranges::find(known, symbol) == known.end())
      throw StoredFlaw(symbol.name() + " is given by no input");
}

Entry entry_of(TextReader& texts, const StoredStart& from) {
  Decision decision = decision_of(texts, from.decision);
  if (from.reported.size() > 1) throw StoredFlaw("an entry reports two decisions");
  Decision reported = from.reported.empty() ? decision : decision_of(texts, from.reported.front());
  const auto list = decision.list();
  const auto is_scalar = [&](std::string_view source) {
    const auto at = list->find(source);
    return at && list->scalar(*at);
  };
  std::vector<HostValue> values;
  for (const auto& steps : from.host_values) {
    values.push_back(host_value_of(texts, steps));
    if (!values.back().well_formed(is_scalar))
      throw StoredFlaw("a value is made of what is no number of an input");
  }
  std::vector<shapes::Symbol> known = decision.trace_symbols();
  for (const shapes::Symbol symbol : decision.host_symbols(values.size())) known.push_back(symbol);
  const auto guards =
      each<shapes::Guard>(from.guards, [&](const auto& g) { return guard_of(texts, g); });
  const auto group_guards =
      each<GroupGuard>(from.group_guards, [&](const auto& g) { return group_guard_of(texts, g); });
  const auto uniform =
      each<UniformSize>(from.uniform, [&](const auto& size) { return uniform_of(texts, size); });
  for (const shapes::Guard& guard : guards) need_known(guard.predicate.expr, known);
  for (const GroupGuard& guard : group_guards) need_known(guard.predicate.expr, known);
  for (const UniformSize& size : uniform) need_known(size.expr, known);
  return Entry::make(std::move(decision), std::move(reported), list, guards, from.graph,
                     group_guards, std::move(values), uniform);
}

}  // namespace

std::vector<Entry> start_entries(const SavedProgram& program) {
  std::vector<Entry> out;
  for (const SavedEntry& entry : program.entries)
    out.push_back(Entry::make(entry.decision, entry.told(), entry.decision.list(),
                              entry.graph.guards, entry.graph.fingerprint(),
                              entry.graph.group_guards, entry.graph.host_values(),
                              entry.graph.agreed_uniform()));
  return out;
}

void start_from(CodeCache& cache, std::vector<Entry> entries) {
  for (Entry& entry : entries) cache.commit(std::move(entry), {}, 0);
}

Bytes encode_starts(const std::vector<Entry>& entries) {
  TextWriter texts;
  StoredStarts out;
  const auto same = [&](const auto& one) { return stored(texts, one); };
  for (const Entry& entry : entries) {
    StoredStart& made = out.entries.emplace_back();
    made.decision = stored(texts, entry.decision);
    if (entry.reported != entry.decision) made.reported.push_back(stored(texts, entry.reported));
    made.graph = entry.graph;
    made.guards = each<StoredGuard>(entry.guards, same);
    made.group_guards = each<StoredGroupGuard>(entry.group_guards, same);
    made.uniform = each<StoredUniform>(entry.uniform, same);
    for (const HostValue& value : entry.host_values)
      made.host_values.push_back(stored(texts, value));
  }
  out.texts = std::move(texts).take();
  return coordinator::pack(kEntriesKind, out);
}

Result<std::vector<Entry>> decode_starts(std::span<const std::byte> bytes) {
  const auto refused = [](std::string what) { return bad_input(std::move(what)); };
  auto read = coordinator::unpack<StoredStarts>(kEntriesKind, bytes);
  if (!read) return refused(read.error().message);
  try {
    if (read->entries.size() > static_cast<std::size_t>(kMaxEntries))
      throw StoredFlaw("there are more entries than a frame may have");
    TextReader texts(std::move(read->texts));
    std::vector<Entry> out;
    for (const StoredStart& entry : read->entries) out.push_back(entry_of(texts, entry));
    return out;
  } catch (const std::exception& flaw) {
    return refused(flaw.what());
  }
}

}  // namespace lockstep::worker
