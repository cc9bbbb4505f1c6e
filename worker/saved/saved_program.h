// A saved program: what a frame has compiled, without the function that it was traced from. Its
// graphs with their symbols, guards and lines, the decisions that they were traced under, and what
// the ranks that run it have to be. No weights, no pointers, nothing of the machine. Made by
// CompiledFrame::save and `lockstep trace --save`; read by Job::load, `lockstep run` and `lockstep
// show` (README.md has the format).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/exchange/consistency.h>
#include <lockstep/worker/exchange/decision.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/graph/own_op.h>

namespace lockstep::worker {

/// The object of one compile unit of an entry's program.
struct PackedObject {
  shapes::Fingerprint key;  // Program::unit_key
  std::string digest;       // of the object: coordinator::content_digest
  Bytes object;
};

/// What packed objects were built for.
struct PackedFor {
  shapes::Fingerprint toolchain;  // Toolchain::fingerprint()
  std::string processor;          // processor_kind()
  bool operator==(const PackedFor&) const = default;
};

/// One entry: which calls it serves, and what it runs.
struct SavedEntry {
  Decision decision;                 // what the rank that saved it compiled
  std::optional<Decision> reported;  // what its group reports; nullopt: the same
  Graph graph;
  std::vector<PackedObject> objects;  // by number of the unit; empty: none are packed

  [[nodiscard]] const Decision& told() const { return reported ? *reported : decision; }
};

/// Value type.
struct SavedProgram {
  std::string frame;
  Consistency consistency = Consistency::SameGraph;
  bool audit = false;               // FrameOptions::audit
  bool complex_as_asserts = false;  // FrameOptions::complex_branches is Assert
  std::vector<std::string> constraints;
  std::string group;  // of the frame; empty: all ranks of the job
  int ranks = 1;      // of that group
  /// How many ranks each set of the groups has that collectives name.
  std::map<std::string, int> groups;
  std::vector<SavedEntry> entries;  // in the order in which they were compiled
  std::optional<PackedFor> packed;  // nullopt: no entry has objects

  /// Covers what must be the same on all ranks that run it together: options, decisions, and of
  /// the graphs what the consistency compares. Hints, lines and packed objects do not count.
  [[nodiscard]] shapes::Fingerprint joint_fingerprint() const;
};

/// Where the definitions of own ops and host calls come from. A program has their names and
/// fingerprints only.
struct OwnOps {
  std::vector<OwnDefinition> known{};
  /// One that is not known is shown, and cannot run.
  bool stand_ins = false;
};

/// What is wrong with a program that was put together; nullopt: it can be run by such ranks. Reads
/// nothing that it has not checked: the program may have come from anywhere.
[[nodiscard]] std::optional<std::string> flaw_of(const SavedProgram& program);

/// The groups that the graph's collectives and uniform sizes name, bodies included.
[[nodiscard]] std::vector<std::string> groups_of(const Graph& graph);

/// What in the graphs is for so many ranks as traced them, with its line: a collective of the
/// frame's group, a rank's number. nullopt: nothing; a number that the function made of Job::size()
/// looks like any other.
[[nodiscard]] std::optional<std::string> bound_to_ranks(const SavedProgram& program);

/// The own ops and host calls of the program, by name; of each its node.
[[nodiscard]] std::map<std::string, const Node*> own_ops_of(const SavedProgram& program);

}  // namespace lockstep::worker
