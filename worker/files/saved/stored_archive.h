// The order of fields of the records of stored_form.h in an archive. Internal to this room;
// included by .cpp files that include coordinator/store/archive.h before.
#pragma once

#include <lockstep/worker/files/saved/stored_form.h>

namespace lockstep::worker {

/// A count, then that many records. A record is read before room is made for the next, so a false
/// count in the file takes no memory.
template <class T>
struct Rows {
  std::vector<T>& of;
};
template <class T>
Rows(std::vector<T>&) -> Rows<T>;

template <class Archive, class T>
void serialize(Archive& archive, Rows<T>& rows) {
  auto count = static_cast<std::uint64_t>(rows.of.size());
  archive(count);
  if constexpr (Archive::is_loading::value) {
    rows.of.clear();
    for (; count > 0; --count) archive(rows.of.emplace_back());
  } else {
    for (T& element : rows.of) archive(element);
  }
}

template <class Archive, class T>
void serialize(Archive& archive, Rows<std::vector<T>>& rows) {
  auto count = static_cast<std::uint64_t>(rows.of.size());
  archive(count);
  if constexpr (Archive::is_loading::value) {
    rows.of.clear();
    for (; count > 0; --count) archive(Rows{rows.of.emplace_back()});
  } else {
    for (std::vector<T>& element : rows.of) archive(Rows{element});
  }
}

template <class Archive>
void serialize(Archive& archive, StoredLine& x) {
  archive(x.file, x.line);
}
template <class Archive>
void serialize(Archive& archive, StoredSymbol& x) {
  archive(x.unbacked, x.serial);
}
template <class Archive>
void serialize(Archive& archive, StoredPredicate& x) {
  archive(x.relation, x.expr);
}
template <class Archive>
void serialize(Archive& archive, StoredGuard& x) {
  archive(x.predicate, x.where, x.note);
}
template <class Archive>
void serialize(Archive& archive, StoredGroupGuard& x) {
  archive(x.predicate, x.over, x.value, x.where);
}
template <class Archive>
void serialize(Archive& archive, StoredUniform& x) {
  archive(x.expr, x.group, x.what, x.where);
}
template <class Archive>
void serialize(Archive& archive, StoredStep& x) {
  archive(x.code, x.source, x.number);
}
template <class Archive>
void serialize(Archive& archive, StoredBinding& x) {
  archive(x.symbol, x.source, x.hint, Rows{x.value});
}
template <class Archive>
void serialize(Archive& archive, StoredNode& x) {
  archive(x.op, x.dtype, Rows{x.inputs}, Rows{x.sizes}, Rows{x.exprs}, Rows{x.ints}, x.number,
          x.text, Rows{x.asserts}, Rows{x.binds}, x.own, Rows{x.bodies}, x.where);
}
template <class Archive>
void serialize(Archive& archive, StoredOutput& x) {
  archive(x.name, x.node);
}
template <class Archive>
void serialize(Archive& archive, StoredNesting& x) {
  archive(x.group, Rows{x.within});
}
template <class Archive>
void serialize(Archive& archive, StoredGraph& x) {
  archive(x.name, x.peers_may_differ, x.is_body, Rows{x.nodes}, Rows{x.outputs}, Rows{x.symbols},
          Rows{x.guards}, Rows{x.group_guards}, Rows{x.uniform}, Rows{x.nesting}, Rows{x.answers},
          Rows{x.read_backs});
}
template <class Archive>
void serialize(Archive& archive, StoredDim& x) {
  archive(x.is_symbol, x.value);
}
template <class Archive>
void serialize(Archive& archive, StoredSource& x) {
  archive(x.name, x.kind, x.dtype, Rows{x.dims});
}
template <class Archive>
void serialize(Archive& archive, StoredSize& x) {
  archive(x.source, x.unbacked, x.has_min, x.pinned_is_error, x.settled, x.min, x.hint);
}
template <class Archive>
void serialize(Archive& archive, StoredFieldValue& x) {
  archive(x.number, x.bytes);
}
template <class Archive>
void serialize(Archive& archive, StoredField& x) {
  archive(x.name, x.type, x.join, Rows{x.values});
}
template <class Archive>
void serialize(Archive& archive, StoredDecision& x) {
  archive(Rows{x.sources}, Rows{x.symbols}, Rows{x.fields});
}
template <class Archive>
void serialize(Archive& archive, StoredOwn& x) {
  archive(x.name, x.definition);
}
template <class Archive>
void serialize(Archive& archive, StoredObject& x) {
  archive(x.key, x.digest, x.object);
}
template <class Archive>
void serialize(Archive& archive, StoredEntry& x) {
  archive(x.decision, Rows{x.reported}, x.graph, x.fingerprint, Rows{x.objects});
}
template <class Archive>
void serialize(Archive& archive, StoredGroup& x) {
  archive(x.name, x.ranks);
}
template <class Archive>
void serialize(Archive& archive, StoredPackedFor& x) {
  archive(x.toolchain, x.processor);
}
template <class Archive>
void serialize(Archive& archive, StoredProgram& x, std::uint32_t) {
  archive(Rows{x.texts}, x.frame, x.group, x.ranks, x.consistency, x.audit, x.complex_as_asserts,
          Rows{x.constraints}, Rows{x.groups}, Rows{x.own}, Rows{x.graphs}, Rows{x.entries},
          Rows{x.packed});
}
template <class Archive>
void serialize(Archive& archive, StoredStart& x) {
  archive(x.decision, Rows{x.reported}, x.graph, Rows{x.guards}, Rows{x.group_guards},
          Rows{x.uniform}, Rows{x.host_values});
}
template <class Archive>
void serialize(Archive& archive, StoredStarts& x, std::uint32_t) {
  archive(Rows{x.texts}, Rows{x.entries});
}

}  // namespace lockstep::worker
