// What a graph says of sizes and values that are the same on all ranks of a group. Uniform are
// constants, what the graph lists as uniform (uniform_size.h), what is computed from uniform sizes,
// and integers read back from what a collective gives to all ranks alike. Pure: a function of the
// graph, so every rank has the same answers. Used by the tracer, which adds what collectives still
// need, and by error_sync_points, which has the rest compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// The sizes of a collective that all ranks of its group must have alike: those of the operand, but
/// for the rows of an all_to_all with splits; its split, where all are one size. Of a node whose
/// bodies hold collectives: what they need, and how many trips a scan makes.
[[nodiscard]] std::vector<shapes::Expr> uniform_needs(const std::vector<Node>& nodes,
                                                      const Node& collective);

/// Fed with the nodes in order. Refers to them and to the nesting of the groups.
class UniformFacts {
 public:
  UniformFacts(const std::vector<Node>& nodes, const Nesting& nesting)
      : nodes_(nodes), nesting_(nesting) {}

  /// Takes in what the next node makes known.
  void pass();
  [[nodiscard]] NodeId next() const { return static_cast<NodeId>(values_.size()); }
  /// The sizes have been found to be the same on all ranks of the group.
  void learn(const shapes::Expr& size, const std::string& group);
  /// True on every rank that comes here with its peers. An empty name: the frame's group, which
  /// contains all others.
  [[nodiscard]] bool uniform(const shapes::Expr& size, const std::string& group) const;
  /// The value of a node that has been passed is the same on all ranks of the frame's group.
  [[nodiscard]] bool uniform(NodeId id) const { return (values_.at(id) & kFrame) != 0; }

 private:
  /// A bit per group that has been named; bit 0 is the frame's, and what is the same on all its
  /// ranks has all bits.
  using Groups = std::uint64_t;
  static constexpr Groups kFrame = 1, kAll = ~Groups{0};
  [[nodiscard]] Groups bit(const std::string& group) const;
  /// That of a group, and of those within it.
  [[nodiscard]] Groups named(const std::string& group);
  [[nodiscard]] Groups added(const std::string& group);
  [[nodiscard]] bool of_uniform_parts(const shapes::Expr& size, Groups group) const;
  [[nodiscard]] bool made_of_a_known_one(const shapes::Expr& size, Groups group) const;
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

/// What the next node needs beyond what is known, which is known from then on; added to `uniform`
/// in so far as sizes that are known before the run go into it.
void add_needs(const std::vector<Node>& nodes, UniformFacts& facts,
               std::vector<UniformSize>& uniform);
/// What the collectives of a graph need beyond what is known, over sizes that are known before it
/// runs: the rest of Graph::uniform. Where peers may differ nothing is known of what they need.
void add_uniform_needs(Graph& graph);

}  // namespace lockstep::worker
