#include <lockstep/coordinator/store/archive.h>
#include <lockstep/worker/files/saved/saved_bytes.h>
#include <lockstep/worker/files/saved/stored_archive.h>
#include <lockstep/worker/files/saved/stored_graph.h>

CEREAL_CLASS_VERSION(lockstep::worker::StoredProgram, lockstep::worker::kProgramVersion)

namespace lockstep::worker {
namespace {

constexpr std::string_view kProgramKind = "program";

StoredProgram stored_form(const SavedProgram& program) {
  TextWriter texts;
  StoredProgram out;
  const auto flag = [](bool value) { return static_cast<std::uint8_t>(value ? 1 : 0); };
  out.frame = texts.id(program.frame);
  out.group = texts.id(program.group);
  out.ranks = static_cast<std::uint32_t>(program.ranks);
  out.consistency = static_cast<std::uint8_t>(program.consistency);
  out.audit = flag(program.audit);
  out.complex_as_asserts = flag(program.complex_as_asserts);
  for (const std::string& constraint : program.constraints)
    out.constraints.push_back(texts.id(constraint));
  for (const auto& [name, ranks] : program.groups)
    out.groups.push_back({texts.id(name), static_cast<std::uint32_t>(ranks)});
  GraphWriter graphs(texts, out);
  for (const SavedEntry& entry : program.entries) {
    StoredEntry made;
    made.decision = stored(texts, entry.decision);
    if (entry.reported) made.reported.push_back(stored(texts, *entry.reported));
    made.graph = graphs.add(entry.graph);
    made.fingerprint = entry.graph.fingerprint();
    for (const PackedObject& packed : entry.objects)
      made.objects.push_back({packed.key, texts.id(packed.digest), packed.object});
    out.entries.push_back(std::move(made));
  }
  if (program.packed)
    out.packed.push_back({program.packed->toolchain, texts.id(program.packed->processor)});
  out.texts = std::move(texts).take();
  return out;
}

/// Returns a number of ranks. Throws StoredFlaw if it is out of range.
int ranks_of(std::uint32_t ranks) {
  if (ranks < 1 || ranks > 1U << 24) throw StoredFlaw("that is no number of ranks");
  return static_cast<int>(ranks);
}

SavedEntry entry_of(TextReader& texts, GraphReader& graphs, const StoredEntry& from) {
  SavedEntry out;
  out.decision = decision_of(texts, from.decision);
  if (from.reported.size() > 1) throw StoredFlaw("an entry reports two decisions");
  if (!from.reported.empty()) out.reported = decision_of(texts, from.reported[0]);
  out.graph = graphs.take(from.graph);
  for (const StoredObject& object : from.objects)
    out.objects.push_back({object.key, texts.text(object.digest), object.object});
  return out;
}

/// Throws StoredFlaw unless the program keeps all rules and its graphs have the stored
/// fingerprints.
void require_valid(const SavedProgram& program, const std::vector<StoredEntry>& from) {
  if (const auto flaw = first_error(program)) throw StoredFlaw(*flaw);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (program.entries[i].graph.fingerprint() != from[i].fingerprint)
      throw StoredFlaw("a graph does not have the fingerprint that stands beside it");
}

SavedProgram program_of(StoredProgram from, const OwnOps& own) {
  TextReader texts(std::move(from.texts));
  SavedProgram out;
  out.frame = texts.text(from.frame);
  out.group = texts.text(from.group);
  out.ranks = ranks_of(from.ranks);
  out.consistency = enum_of<Consistency>(from.consistency, 4, "such consistency");
  out.audit = flag_of(from.audit);
  out.complex_as_asserts = flag_of(from.complex_as_asserts);
  for (const TextId constraint : from.constraints)
    out.constraints.push_back(texts.text(constraint));
  for (const StoredGroup& group : from.groups)
    if (!out.groups.emplace(texts.text(group.name), ranks_of(group.ranks)).second)
      throw StoredFlaw("a group is there twice");
  GraphReader graphs(texts, from, own);
  for (const StoredEntry& entry : from.entries)
    out.entries.push_back(entry_of(texts, graphs, entry));
  if (from.packed.size() > 1) throw StoredFlaw("objects are packed for two machines");
  if (!from.packed.empty())
    out.packed = PackedFor{from.packed[0].toolchain, texts.text(from.packed[0].processor)};
  require_valid(out, from.entries);
  return out;
}

}  // namespace

Result<Bytes> encode(const SavedProgram& program) {
  if (const auto flaw = first_error(program)) return bad_input("cannot be saved: " + *flaw);
  Bytes bytes = coordinator::pack(kProgramKind, stored_form(program));
  // Finds an unreadable program now, not when it is loaded.
  if (auto again = decode_program(bytes, {.known = {}, .stand_ins = true}); !again)
    return bad_input("cannot be saved: it " + again.error().message);
  return bytes;
}

Result<SavedProgram> decode_program(std::span<const std::byte> bytes, const OwnOps& own) {
  auto read = coordinator::unpack<StoredProgram>(kProgramKind, bytes);
  if (!read && read.error().code == Code::Version)
    return bad_input("cannot be read: " + read.error().message +
                     "; use the version of lockstep that wrote it, or save it again");
  if (!read) return bad_input("is damaged: " + read.error().message);
  try {
    return program_of(*std::move(read), own);
  } catch (const GraphReader::UnknownOwn& unknown) {
    return bad_input(unknown.sentence);
  } catch (const std::exception& flaw) {
    return bad_input(std::string("is damaged: ") + flaw.what());
  }
}

}  // namespace lockstep::worker
