// Sizes and values of a graph that are the same on all ranks of a group. These are uniform:
// constants, sizes listed in the graph (uniform_size.h), sizes computed from uniform sizes, and
// integers read back from the result of a collective that gives all ranks the same result. Pure: a
// function of the graph, so every rank has the same answers. Used by the tracer, which adds the
// sizes that collectives need to Graph::uniform, and by error_sync_points, which has all others
// compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// The sizes of a collective that all ranks of its group need equal: all sizes of the operand; for
/// an all_to_all, all but its rows, and its split if all splits are one size. For a node whose
/// bodies hold collectives: the needs of the bodies, and the number of trips of a scan.
[[nodiscard]] std::vector<shapes::Expr> uniform_needs(const std::vector<Node>& nodes,
                                                      const Node& collective);

/// Takes the nodes in order. Refers to them and to the nesting of the groups.
class UniformFacts {
 public:
  UniformFacts(const std::vector<Node>& nodes, const Nesting& nesting)
      : nodes_(nodes), nesting_(nesting) {}

  /// Adds what the next node makes known.
  void pass();
  [[nodiscard]] NodeId next() const { return static_cast<NodeId>(values_.size()); }
  /// From here on the size counts as the same on all ranks of the group.
  void learn(const shapes::Expr& size, const std::string& group);
  /// True if the size is the same on every rank that gets here with its peers. An empty name: the
  /// frame's group, which contains all others.
  [[nodiscard]] bool uniform(const shapes::Expr& size, const std::string& group) const;
  /// True if the value of a passed node is the same on all ranks of the frame's group.
  [[nodiscard]] bool uniform(NodeId id) const { return (values_.at(id) & kFrame) != 0; }

 private:
  /// A bit per named group; bit 0 is the frame's. A size that is the same on all ranks of the frame
  /// has all bits.
  using Groups = std::uint64_t;
  static constexpr Groups kFrame = 1, kAll = ~Groups{0};
  [[nodiscard]] Groups bit(const std::string& group) const;
  /// The bits of a group and of the groups within it.
  [[nodiscard]] Groups named(const std::string& group);
  [[nodiscard]] Groups added(const std::string& group);
  [[nodiscard]] bool of_uniform_parts(const shapes::Expr& size, Groups group) const;
  [[nodiscard]] bool is_multiple_of_known(const shapes::Expr& size, Groups group) const;
  [[nodiscard]] bool uniform_in(const shapes::Expr& size, Groups group) const;
  [[nodiscard]] Groups same_in(const shapes::Expr& size) const;
  [[nodiscard]] Groups same_values(const Node& node);

  struct Known {
    shapes::Expr size;
    Groups groups = 0;
  };
  const std::vector<Node>& nodes_;
  const Nesting& nesting_;
  std::map<std::string, Groups> groups_;  // other than the frame's
  std::vector<Known> known_;
  std::map<shapes::Symbol, Groups> symbols_;
  std::vector<Groups> values_;  // by node: the groups on whose ranks its value is the same
};

/// Learns the needs of the next node that are not known yet, and adds those made of sizes known
/// before the run to `uniform`.
void add_needs(const std::vector<Node>& nodes, UniformFacts& facts,
               std::vector<UniformSize>& uniform);
/// Adds to Graph::uniform the sizes, known before the graph runs, that its collectives need equal
/// and nothing proves to be equal. If peers may differ, their needs are unknown, and nothing is
/// added.
void add_uniform_needs(Graph& graph);

}  // namespace lockstep::worker
