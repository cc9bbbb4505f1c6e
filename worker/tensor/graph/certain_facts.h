// Facts that the asserts of a graph have made certain on all ranks at a place in it: asserts that
// every rank has passed and reported, and what follows from them for counts that went through an
// exchange. Conservative: a fact that is not certain here may still hold. Called by
// error_sync_points.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/tensor/graph/exchanged_blocks.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Takes the nodes in order. Refers to the graph and to its exchanged blocks.
class CertainFacts {
 public:
  CertainFacts(const Graph& graph, const ExchangedBlocks& blocks);

  /// Adds the facts of node `id`. An assert is certain here if its predicate `holds`.
  void pass(NodeId id);
  /// Makes the pending asserts certain: all ranks have reported that they passed them.
  void confirm();

  /// True if the predicate is certain on every rank that reached this place with its peers.
  [[nodiscard]] bool holds(const shapes::Predicate& predicate) const;
  /// True if the counts are never negative and add up to `rows`.
  [[nodiscard]] bool add_up(std::span<const shapes::Expr> counts, const shapes::Expr& rows) const;
  /// True if an assert that is neither certain nor reported mentions the symbol.
  [[nodiscard]] bool in_doubt(shapes::Symbol symbol) const;

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[id]; }
  void pass_counts(const Node& at);
  void certain_on_all(const shapes::Predicate& predicate);
  [[nodiscard]] bool never_negative(const shapes::Expr& expr) const;
  [[nodiscard]] bool certain(const shapes::Predicate& predicate) const;
  [[nodiscard]] bool holds_of_the_number(const shapes::Predicate& predicate) const;
  [[nodiscard]] bool holds_on_the_sender(const shapes::Predicate& predicate) const;

  const Graph& graph_;
  const ExchangedBlocks& blocks_;
  std::vector<shapes::Predicate> certain_, pending_;
};

}  // namespace lockstep::worker
