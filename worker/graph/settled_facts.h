// What the asserts of a graph have made certain on all ranks at a place in it: those that every
// rank has passed and told of, and what follows from them for counts that went through an exchange.
// Conservative: what it does not say may hold or not. Called by error_sync_points.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/graph/exchanged_blocks.h>
#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// Fed with the nodes in order. Refers to the graph and to what was exchanged in it.
class SettledFacts {
 public:
  SettledFacts(const Graph& graph, const ExchangedBlocks& blocks);

  /// Takes in what node `id` is. An assert is certain here if `holds` says so of its predicate.
  void pass(NodeId id);
  /// All ranks have told of what they passed: every rank passed it.
  void settle();

  /// True on every rank that reached this place with its peers.
  [[nodiscard]] bool holds(const shapes::Predicate& predicate) const;
  /// The counts are never negative and add up to `rows`.
  [[nodiscard]] bool add_up(std::span<const shapes::Expr> counts, const shapes::Expr& rows) const;
  /// An assert that is neither certain nor told of mentions the symbol.
  [[nodiscard]] bool in_doubt(shapes::Symbol symbol) const;

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[id]; }
  void pass_counts(const Node& at);
  void settled_on_all(const shapes::Predicate& predicate);
  [[nodiscard]] bool never_negative(const shapes::Expr& expr) const;
  [[nodiscard]] bool settled(const shapes::Predicate& predicate) const;
  [[nodiscard]] bool holds_of_the_number(const shapes::Predicate& predicate) const;
  [[nodiscard]] bool holds_on_the_sender(const shapes::Predicate& predicate) const;

  const Graph& graph_;
  const ExchangedBlocks& blocks_;
  std::vector<shapes::Predicate> settled_, pending_;
};

}  // namespace lockstep::worker
