// Whether the split lists of an all_to_all fit: every rank sends each peer as many rows as the peer
// expects. Decided by the graph before it runs; the lists that it leaves open are compared in the
// run (run/comparison.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/worker/tensor/graph/exchanged_blocks.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/uniform_facts.h>

namespace lockstep::worker {

/// Takes the nodes in order. Static, so every rank that runs the graph has the same answers. Refers
/// to the graph and to its exchanged blocks.
class SplitLists {
 public:
  SplitLists(const Graph& graph, const ExchangedBlocks& blocks) : graph_(graph), blocks_(blocks) {}

  /// Adds what the node makes certain.
  void pass(const Node& node);
  /// True if the lists of an AllToAll fit on every rank that reaches it with its peers: all splits
  /// are one uniform size, an exchange received one list where peers sent the other, or the two
  /// lists fitted before, also swapped. If false, the lists have to be compared in the run; after
  /// that they count as fitting.
  [[nodiscard]] bool fit(const Node& node, const UniformFacts& uniform);

 private:
  using Exprs = std::span<const shapes::Expr>;
  [[nodiscard]] bool made_to_fit(const Node& node, const UniformFacts& uniform) const;
  [[nodiscard]] bool received_is_sent(const Node& node, Exprs sent, Exprs received) const;
  [[nodiscard]] bool numbers_of_peers(const Node& node, Exprs own, Exprs theirs) const;
  enum class Side : std::uint8_t { Sent, Received };
  [[nodiscard]] std::optional<shapes::Expr> of_first_block(const Node& node, std::size_t peer,
                                                           const shapes::Expr& rows,
                                                           Side side) const;

  /// The symbol, or an equal one that was read back.
  [[nodiscard]] shapes::Symbol read_back(shapes::Symbol symbol) const;

  const Graph& graph_;
  const ExchangedBlocks& blocks_;
  /// For lists that fit: their group, and the texts of both lists, sorted.
  std::set<std::tuple<std::string, std::string, std::string>> fitted_;
  /// Equalities that asserts give: maps a symbol bound before the run to the last symbol equal to
  /// it.
  std::map<shapes::Symbol, shapes::Symbol> equal_;
};

}  // namespace lockstep::worker
