#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <lockstep/worker/tensor/graph/certain_facts.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/index_range.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/split_lists.h>
#include <lockstep/worker/tensor/graph/uniform_facts.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;

bool constant(std::span<const Expr> exprs) {
  return std::ranges::all_of(exprs, [](const Expr& e) { return e.constant().has_value(); });
}

class Walk {
 public:
  explicit Walk(const Graph& graph)
      : graph_(graph),
        blocks_(graph),
        facts_(graph, blocks_),
        lists_(graph, blocks_),
        uniform_(graph.nodes, graph.nesting),
        open_(graph.peers_may_differ) {
    for (const SymbolBinding& binding : graph.symbols) bound_.insert(binding.symbol);
    known_ = bound_;
    points_.before.resize(graph.nodes.size(), ErrorSync::None);
    points_.compares.resize(graph.nodes.size(), false);
    points_.same.resize(graph.nodes.size());
    for (const UniformSize& size : graph.uniform) uniform_.learn(size.expr, size.group);
    for (const UniformSize& size : graph.uniform)
      if (!size.group.empty()) in_groups_[size.group].push_back(size.expr);
  }

  ErrorSyncPoints run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      if (runs_collectives(node)) {
        points_.same[id] = unknown_sizes(node);
        points_.compares[id] = compares(node);
        points_.before[id] =
            points_.compares[id] || !points_.same[id].empty() ? ErrorSync::Vote : sync_before(node);
        if (points_.before[id] != ErrorSync::None) confirm();
      }
      open_ = open_ || may_fail(id);
      facts_.pass(id);
      lists_.pass(node);
      uniform_.pass();
      bound_.insert(node.binds.begin(), node.binds.end());
      if (!open_) known_ = bound_;
    }
    points_.at_end = open_;
    return std::move(points_);
  }

 private:
  /// True if nothing proves that split lists fit, or that a predicate is the same on all ranks.
  [[nodiscard]] bool compares(const Node& node) {
    if (node.op == Op::AllToAll) return !lists_.fit(node, uniform_);
    return node.op == Op::While ||
           (node.op == Op::Cond && (graph_.peers_may_differ || !uniform_.uniform(node.inputs[0])));
  }

  /// The sizes that the group has to compare before this collective. Before its first collective
  /// these include all sizes that are known before the run and have to be equal in the group.
  std::vector<Expr> unknown_sizes(const Node& node) {
    std::vector<Expr> out;
    if (const auto first = in_groups_.extract(node.text)) out = std::move(first.mapped());
    for (const Expr& size : uniform_needs(graph_.nodes, node)) {
      // Where graphs may differ, ranks have compared constant sizes only.
      const bool open = graph_.peers_may_differ ? !size.constant() && !is_split(node, size)
                                                : !uniform_.uniform(size, node.text);
      if (!open) continue;
      if (!graph_.peers_may_differ) uniform_.learn(size, node.text);
      out.push_back(size);
    }
    return out;
  }

  /// True for a split of an all_to_all: its lists are compared as a whole.
  static bool is_split(const Node& node, const Expr& size) {
    return node.op == Op::AllToAll && size == node.exprs.at(0);
  }

  /// True if the node may fail on one rank alone. Collectives are handled by sync_before().
  [[nodiscard]] bool may_fail(NodeId id) const {
    const Node& node = graph_.nodes[id];
    // At the end of bodies with collectives every rank knows of a failure inside.
    if (!node.bodies.empty()) return !runs_collectives(node);
    if (node.op == Op::Assert) return !facts_.holds(node.asserts.at(0).predicate);
    if (graph_.is_body && node.op == Op::Input) return false;
    for (std::size_t dim = 0; node.op == Op::Input && dim < node.meta.sizes.size(); ++dim)
      if (!is_its_own(node, dim)) return true;
    return may_refuse(graph_, id);
  }

  /// True if every input of this entry has this size: it is a number, by which entries are looked
  /// up, or a symbol whose value is read from this very dim.
  [[nodiscard]] bool is_its_own(const Node& input, std::size_t dim) const {
    const Expr& size = input.meta.sizes[dim];
    const std::string source = input.text + ".size(" + std::to_string(dim) + ")";
    return size.constant() ||
           std::ranges::any_of(graph_.symbols, [&](const SymbolBinding& binding) {
             return size.as_symbol() == binding.symbol && binding.source == source;
           });
  }

  [[nodiscard]] ErrorSync sync_before(const Node& node) const {
    // No rank enters bodies that hold collectives if a rank has failed.
    if (graph_.peers_may_differ || !node.bodies.empty()) return ErrorSync::Vote;
    const Node& operand = graph_.nodes[node.inputs[0]];
    const bool splits_fit = node.op != Op::AllToAll || this->splits_fit(node, operand);
    if (!open_ && splits_fit) return ErrorSync::None;
    if (!splits_fit || !sizes_known(node, operand)) return ErrorSync::Vote;
    // A collective of a smaller group would report the failure to its members only.
    const bool counts = node.op == Op::AllToAll && node.text.empty() &&
                        node.meta.dtype == DType::I64 && constant(node.exprs) &&
                        constant(node.meta.sizes) &&
                        *shapes::product(node.meta.sizes).constant() > 0;
    return counts ? ErrorSync::Piggybacked : ErrorSync::None;
  }

  [[nodiscard]] bool splits_fit(const Node& node, const Node& operand) const {
    const std::span exprs(node.exprs);
    const std::size_t ranks = exprs.size() / 2;
    return facts_.add_up(exprs.first(ranks), operand.meta.sizes[0]) &&
           facts_.add_up(exprs.subspan(ranks), node.meta.sizes[0]);
  }

  /// True if a rank that has failed since the last sync point still knows all sizes of the
  /// collective, and no assert that may have failed mentions their symbols.
  [[nodiscard]] bool sizes_known(const Node& node, const Node& operand) const {
    for (const auto* exprs : {&node.exprs, &node.meta.sizes, &operand.meta.sizes})
      for (const Expr& expr : *exprs)
        for (const Symbol symbol : expr.symbols())
          if (!known_.contains(symbol) || facts_.in_doubt(symbol)) return false;
    return true;
  }

  void confirm() {
    facts_.confirm();
    known_ = bound_;
    open_ = graph_.peers_may_differ;
  }

  const Graph& graph_;
  ExchangedBlocks blocks_;
  CertainFacts facts_;
  SplitLists lists_;
  UniformFacts uniform_;
  std::map<std::string, std::vector<Expr>> in_groups_;  // sizes needed in groups with no collective
                                                        // so far
  ErrorSyncPoints points_;
  std::set<Symbol> bound_, known_;  // known: bound before any failure that open_ allows for
  bool open_;                       // a rank may have failed since the last point
};

}  // namespace

std::vector<JointAct> ErrorSyncPoints::acts_before(const Graph& graph, NodeId id) const {
  std::vector<JointAct> acts;
  const bool exchanges_rows = graph.nodes[id].op == Op::AllToAll;
  if (exchanges_rows) acts.push_back(JointAct::CheckSplits);
  if (!same[id].empty()) acts.push_back(JointAct::CompareSizes);
  if (exchanges_rows && compares[id]) acts.push_back(JointAct::CompareSplits);
  if (before[id] == ErrorSync::Vote) acts.push_back(JointAct::Vote);
  return acts;
}

bool ErrorSyncPoints::told_from(NodeId id) const {
  return at_end || std::any_of(before.begin() + id, before.end(),
                               [](ErrorSync t) { return t != ErrorSync::None; });
}

ErrorSyncPoints error_sync_points(const Graph& graph) { return Walk(graph).run(); }

}  // namespace lockstep::worker
