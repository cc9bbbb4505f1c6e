// Values received in an exchange of equal blocks, matched with the values that were sent. Pure: a
// function of the graph. Called by certain_facts and split_lists.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Refers to the graph.
class ExchangedBlocks {
 public:
  explicit ExchangedBlocks(const Graph& graph);

  /// The node made of sent values just as `id` is made of received ones: on this rank r, block p of
  /// `id` equals block r of that node on rank p. nullopt: there is no such node.
  [[nodiscard]] std::optional<NodeId> sent(NodeId id) const;
  /// The exchange that received the values of `id`. Requires that sent(id) is a node.
  [[nodiscard]] const Node& exchange(NodeId id) const;
  /// A number that every rank has sent to all its peers, given by one expression.
  struct Number {
    shapes::Expr sent;     // what this rank sent
    std::size_t peer = 0;  // rank that sent the symbol's value
    const Node* exchange = nullptr;
  };
  /// The number that the symbol holds; nullopt if it holds no such number.
  [[nodiscard]] std::optional<Number> number(shapes::Symbol symbol) const;
  /// The node that binds the symbol, and its place in the node's list. nullopt: bound before the
  /// run.
  [[nodiscard]] std::optional<std::pair<NodeId, std::size_t>> binder(shapes::Symbol symbol) const;

 private:
  [[nodiscard]] std::optional<NodeId> twin(NodeId id) const;

  const Graph& graph_;
  std::map<NodeId, NodeId> twins_;
  std::map<shapes::Symbol, std::pair<NodeId, std::size_t>> bound_;
};

}  // namespace lockstep::worker
