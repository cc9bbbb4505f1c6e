// Converts graphs to and from their stored form. Bodies are stored as graphs of their own, before
// the graphs that hold them, and each body belongs to one node. So the reader can limit nesting,
// and makes no more nodes than the file has bytes. Internal to this room.
#pragma once

#include <lockstep/worker/files/saved/saved_program.h>
#include <lockstep/worker/files/saved/stored_parts.h>

namespace lockstep::worker {

/// Adds graphs, and the own ops and texts that they use, to a program's stored form.
class GraphWriter {
 public:
  GraphWriter(TextWriter& texts, StoredProgram& out) : texts_(texts), out_(out) {}
  /// Returns the number of the graph. Its bodies are added before it.
  [[nodiscard]] std::uint32_t add(const Graph& graph);

 private:
  [[nodiscard]] StoredNode stored_node(const Node& node);
  [[nodiscard]] std::uint32_t own_number(const OwnDefinition& own);
  TextWriter& texts_;
  StoredProgram& out_;
};

/// Takes graphs out of a stored form. Checks what a Graph needs to be built; first_error() checks
/// the rest.
class GraphReader {
 public:
  /// All arguments outlive the reader.
  GraphReader(TextReader& texts, const StoredProgram& from, const OwnOps& own);
  /// Returns an entry's graph; each graph can be taken once. Throws StoredFlaw and UnknownOwn.
  [[nodiscard]] Graph take(std::uint32_t number);
  /// Thrown for an own op or host call that this process lacks, or has with another definition.
  struct UnknownOwn {
    std::string sentence;
  };

 private:
  [[nodiscard]] Graph graph_of(const StoredGraph& from, std::uint32_t number, int depth);
  [[nodiscard]] Node node_of(const StoredNode& from, std::uint32_t graph, int depth);
  [[nodiscard]] std::shared_ptr<const Graph> body_of(std::uint32_t number, std::uint32_t within,
                                                     int depth);
  void take_once(std::uint32_t number);
  [[nodiscard]] std::shared_ptr<const OwnDefinition> own_of(const StoredNode& from,
                                                            const Node& node);
  TextReader& texts_;
  const StoredProgram& from_;
  const OwnOps& own_;
  std::vector<bool> taken_;  // by number of the graph
};

}  // namespace lockstep::worker
