// A function traced as a body of control flow: the graph of the body, and what is needed to record
// the same ops again elsewhere, for its gradient.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <lockstep/worker/tensor/trace/own_gradient.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {

/// Value type. Refers to nodes of its trace by number.
class TracedBody {
 public:
  /// The values of the outer graph that the body uses, in the order of their first use.
  [[nodiscard]] const std::vector<NodeId>& captured() const { return captured_; }
  /// The op that alone uses a captured value, as it is or with its dims reordered; nullptr if there
  /// are several, or the value is a result or has a part in a user's gradient.
  [[nodiscard]] const Node* only_user(NodeId captured) const;
  /// The graph as a body of a node whose operands for bodies are `operands`: those for the body's
  /// own inputs come first. `row`: the row symbol of a scan.
  [[nodiscard]] std::shared_ptr<const Graph> graph(const std::vector<NodeId>& operands,
                                                   std::optional<shapes::Symbol> row) const;
  /// Records the ops again at the current place of the trace, with the users' gradients among them.
  /// `given`: values for nodes of the body, its own inputs among them. `captured`: the value for
  /// each captured value.
  [[nodiscard]] std::vector<Tensor> replay(Trace& trace, std::map<NodeId, Tensor> given,
                                           const std::vector<Tensor>& captured) const;

 private:
  friend class Trace;
  std::vector<NodeId> own_inputs_, captured_, captured_inputs_, results_;
  std::vector<NodeId> nodes_;   // inputs included, in order
  std::vector<Node> recorded_;  // the nodes themselves
  std::vector<OwnGradient> own_gradients_;
  std::set<NodeId> stopped_;
  Graph frame_;  // facts that bodies take over from the outer graph
};

}  // namespace lockstep::worker
