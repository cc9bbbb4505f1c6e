// The stored form of a saved program: plain records in the order of the file (README.md). Texts are
// given by number, bodies by the number of their graph. Any bytes can make such records; their
// readers check each value. Internal to this room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/files/saved/stored_texts.h>

namespace lockstep::worker {

struct StoredLine {
  TextId file = 0;
  std::uint32_t line = 0;
};
struct StoredSymbol {
  std::uint8_t unbacked = 0;
  std::uint32_t serial = 0;
};
struct StoredPredicate {
  std::uint8_t relation = 0;
  TextId expr = 0;
};
struct StoredGuard {
  StoredPredicate predicate;
  StoredLine where;
  TextId note = 0;  // a guard's note, or the user's message of an assert
};
struct StoredGroupGuard {
  StoredPredicate predicate;
  std::uint8_t over = 0, value = 0;
  StoredLine where;
};
struct StoredUniform {
  TextId expr = 0, group = 0, what = 0;
  StoredLine where;
};
struct StoredStep {
  std::uint8_t code = 0;
  TextId source = 0;
  std::uint64_t number = 0;  // the bits of a double
};
struct StoredBinding {
  StoredSymbol symbol;
  TextId source = 0;
  std::int64_t hint = 0;
  std::vector<StoredStep> value;
};

struct StoredNode {
  std::uint8_t op = 0, dtype = 0;
  std::vector<std::uint32_t> inputs;
  std::vector<TextId> sizes, exprs;
  std::vector<std::int64_t> ints;
  std::uint64_t number = 0;  // the bits of a double
  TextId text = 0;
  std::vector<StoredGuard> asserts;
  std::vector<StoredSymbol> binds;
  std::uint32_t own = 0;              // 0: none; n: number n - 1 of StoredProgram::own
  std::vector<std::uint32_t> bodies;  // numbers of graphs before this one
  StoredLine where;
};
struct StoredOutput {
  TextId name = 0;
  std::uint32_t node = 0;
};
struct StoredNesting {
  TextId group = 0;
  std::vector<TextId> within;
};
struct StoredGraph {
  TextId name = 0;
  std::uint8_t peers_may_differ = 0, is_body = 0;
  std::vector<StoredNode> nodes;
  std::vector<StoredOutput> outputs;
  std::vector<StoredBinding> symbols;
  std::vector<StoredGuard> guards;
  std::vector<StoredGroupGuard> group_guards;
  std::vector<StoredUniform> uniform;
  std::vector<StoredNesting> nesting;
  std::vector<std::int64_t> answers;
  std::vector<TextId> read_backs;
};

struct StoredDim {
  std::uint8_t is_symbol = 0;
  std::int64_t value = 0;  // the size, or the number of the symbol
};
struct StoredSource {
  TextId name = 0;
  std::uint8_t kind = 0, dtype = 0;
  std::vector<StoredDim> dims;
};
struct StoredSize {
  TextId source = 0;
  std::uint8_t unbacked = 0, has_min = 0, pinned_is_error = 0, settled = 0;
  std::int64_t min = 0, hint = 0;
};
struct StoredFieldValue {
  std::int64_t number = 0;
  TextId bytes = 0;
};
struct StoredField {
  TextId name = 0;
  std::uint8_t type = 0, join = 0;
  std::vector<StoredFieldValue> values;
};
struct StoredDecision {
  std::vector<StoredSource> sources;
  std::vector<StoredSize> symbols;
  std::vector<StoredField> fields;
};

struct StoredOwn {
  TextId name = 0;
  shapes::Fingerprint definition;
};
struct StoredObject {
  shapes::Fingerprint key;
  TextId digest = 0;
  Bytes object;
};
struct StoredEntry {
  StoredDecision decision;
  std::vector<StoredDecision> reported;  // at most one; none: equal to `decision`
  std::uint32_t graph = 0;
  shapes::Fingerprint fingerprint;  // fingerprint of the graph
  std::vector<StoredObject> objects;
};
struct StoredGroup {
  TextId name = 0;
  std::uint32_t ranks = 0;
};
struct StoredPackedFor {
  shapes::Fingerprint toolchain;
  TextId processor = 0;
};
struct StoredProgram {
  std::vector<std::string> texts;
  TextId frame = 0, group = 0;
  std::uint32_t ranks = 0;
  std::uint8_t consistency = 0, audit = 0, complex_as_asserts = 0;
  std::vector<TextId> constraints;
  std::vector<StoredGroup> groups;
  std::vector<StoredOwn> own;
  std::vector<StoredGraph> graphs;
  std::vector<StoredEntry> entries;
  std::vector<StoredPackedFor> packed;  // at most one
};

/// An entry without its program: what look-ups and votes need.
struct StoredStart {
  StoredDecision decision;
  std::vector<StoredDecision> reported;
  shapes::Fingerprint graph;
  std::vector<StoredGuard> guards;
  std::vector<StoredGroupGuard> group_guards;
  std::vector<StoredUniform> uniform;
  std::vector<std::vector<StoredStep>> host_values;
};
struct StoredStarts {
  std::vector<std::string> texts;
  std::vector<StoredStart> entries;
};

}  // namespace lockstep::worker
