// Between graphs and their stored form. Bodies stand as graphs of their own, before those that
// hold them, each held once: so a file nests no deeper than its reader allows, and has no more
// nodes than it has bytes. Internal to this room.
#pragma once

#include <lockstep/worker/saved/saved_program.h>
#include <lockstep/worker/saved/stored_parts.h>

namespace lockstep::worker {

/// Adds graphs and what they use to one program's stored form.
class GraphWriter {
 public:
  GraphWriter(TextWriter& texts, StoredProgram& out) : texts_(texts), out_(out) {}
  /// The number of the graph, whose bodies have been added before it.
  [[nodiscard]] std::uint32_t add(const Graph& graph);

 private:
  [[nodiscard]] StoredNode stored_node(const Node& node);
  [[nodiscard]] std::uint32_t own_number(const OwnDefinition& own);
  TextWriter& texts_;
  StoredProgram& out_;
};

/// Takes graphs out of it. All that a graph does not break itself is checked later (flaw_of).
class GraphReader {
 public:
  /// All outlive it.
  GraphReader(TextReader& texts, const StoredProgram& from, const OwnOps& own);
  /// Each graph is asked for once, as an entry's. Throws StoredFlaw, and UnknownOwn.
  [[nodiscard]] Graph take(std::uint32_t number);
  /// Of an own op or host call that this process does not have, or has otherwise.
  struct UnknownOwn {
    std::string sentence;
  };

 private:
  [[nodiscard]] Graph graph_of(const StoredGraph& from, std::uint32_t number, int depth);
  [[nodiscard]] Node node_of(const StoredNode& from, std::uint32_t graph, int depth);
  [[nodiscard]] std::shared_ptr<const Graph> body_of(std::uint32_t number, std::uint32_t within,
                                                     int depth);
  void need_fresh(std::uint32_t number);
  [[nodiscard]] std::shared_ptr<const OwnDefinition> own_of(const StoredNode& from,
                                                            const Node& node);
  TextReader& texts_;
  const StoredProgram& from_;
  const OwnOps& own_;
  std::vector<bool> taken_;  // by number of the graph
};

}  // namespace lockstep::worker
