// A saved program: the compiled content of a frame, without the function that it was traced from.
// It has graphs with their symbols, guards and lines, the decisions that they were traced under,
// and requirements on the ranks that run it. No weights, no pointers, and nothing of the machine
// unless objects are packed. Made by CompiledFrame::save and `lockstep trace --save`; read by
// Job::load, `lockstep run` and `lockstep show` (the format is in README.md).
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
#include <lockstep/worker/agree/exchange/consistency.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

/// The object of one compile unit of an entry's program.
struct PackedObject {
  shapes::Fingerprint key;  // Program::unit_key
  std::string digest;       // coordinator::content_digest of the object
  Bytes object;
};

/// The toolchain and processor that packed objects were built for.
struct PackedFor {
  shapes::Fingerprint toolchain;  // Toolchain::fingerprint()
  std::string processor;          // processor_kind()
  bool operator==(const PackedFor&) const = default;
};

/// One entry: the calls that it serves, and the graph that it runs.
struct SavedEntry {
  Decision decision;                 // as compiled by the rank that saved it
  std::optional<Decision> reported;  // as reported by its group; nullopt: equal to `decision`
  Graph graph;
  std::vector<PackedObject> objects;  // by number of the unit; empty if not packed

  [[nodiscard]] const Decision& told() const { return reported ? *reported : decision; }
};

/// Value type.
struct SavedProgram {
  std::string frame;
  Consistency consistency = Consistency::SameGraph;
  bool audit = false;               // FrameOptions::audit
  bool complex_as_asserts = false;  // FrameOptions::complex_branches is Assert
  std::vector<std::string> constraints;
  std::string group;  // the frame's group; empty: all ranks of the job
  int ranks = 1;      // number of ranks in that group
  /// For each group that collectives name, the number of ranks in each of its sets.
  std::map<std::string, int> groups;
  std::vector<SavedEntry> entries;  // in the order in which they were compiled
  std::optional<PackedFor> packed;  // nullopt if no entry has objects

  /// Fingerprint of what must be equal on all ranks that run the program together: options,
  /// decisions, and the parts of the graphs that the consistency compares. Hints, lines and packed
  /// objects do not count.
  [[nodiscard]] shapes::Fingerprint joint_fingerprint() const;
};

/// The definitions of own ops and host calls. A program holds only their names and fingerprints.
struct OwnOps {
  std::vector<OwnDefinition> known{};
  /// True: an unknown own op gets a stand-in, which can be shown and cannot run.
  bool stand_ins = false;
};

/// Returns what is wrong with a program; nullopt if its ranks can run it. Reads nothing that it has
/// not checked: the program may come from anywhere.
[[nodiscard]] std::optional<std::string> first_error(const SavedProgram& program);

/// Returns the groups that collectives, uniform sizes and rank numbers of the graph name, bodies
/// included.
[[nodiscard]] std::vector<std::string> groups_of(const Graph& graph);

/// Returns the name and line of a node that binds the graphs to the number of ranks that traced
/// them: a collective of the frame's group, or a rank's number. nullopt: there is no such node.
/// Does not find numbers computed from Job::size(), which look like any other number.
[[nodiscard]] std::optional<std::string> bound_to_ranks(const SavedProgram& program);

/// Returns a node for each own op and host call of the program, by name.
[[nodiscard]] std::map<std::string, const Node*> own_ops_of(const SavedProgram& program);

}  // namespace lockstep::worker
