// Values that an exchange of equal blocks has brought, beside those that were sent. Pure: a
// function of the graph. Called by settled_facts and split_lists.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// Refers to the graph.
class ExchangedBlocks {
 public:
  explicit ExchangedBlocks(const Graph& graph);

  /// What was made of what was sent just as `id` is made of what was received: block p of `id`,
  /// here, is block (this rank) of the answer on rank p. None: `id` is not made so.
  [[nodiscard]] std::optional<NodeId> sent(NodeId id) const;
  /// The exchange that brought what such a node is made of.
  [[nodiscard]] const Node& exchange(NodeId id) const;
  /// One number that every rank has sent to all its peers, by one and the same expression.
  struct Number {
    shapes::Expr sent;     // what this rank sent
    std::size_t peer = 0;  // whose number the symbol is
    const Node* exchange = nullptr;
  };
  /// None: the symbol is no such number.
  [[nodiscard]] std::optional<Number> number(shapes::Symbol symbol) const;
  /// The list that binds the symbol, and as which element. None: it is bound before the run.
  [[nodiscard]] std::optional<std::pair<NodeId, std::size_t>> binder(shapes::Symbol symbol) const;

 private:
  [[nodiscard]] std::optional<NodeId> twin(NodeId id) const;

  const Graph& graph_;
  std::map<NodeId, NodeId> twins_;
  std::map<shapes::Symbol, std::pair<NodeId, std::size_t>> bound_;
};

}  // namespace lockstep::worker
