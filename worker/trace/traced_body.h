// A function that was traced as a body of control flow: the graph of the body, and what is needed
// to record the same ops once more elsewhere, for its gradient.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <lockstep/worker/trace/own_gradient.h>
#include <lockstep/worker/trace/tracer.h>

namespace lockstep::worker {

/// Value type. Refers to nodes of its trace by number.
class TracedBody {
 public:
  /// The values of the graph around that it uses, in the order of their first use.
  [[nodiscard]] const std::vector<NodeId>& captured() const { return captured_; }
  /// As a body of a node whose operands for bodies are `operands`: as many of them as the body has
  /// inputs of its own come first. `row`: that of a scan.
  [[nodiscard]] std::shared_ptr<const Graph> graph(const std::vector<NodeId>& operands,
                                                   std::optional<shapes::Symbol> row) const;
  /// Records it again where the trace now stands, with the gradients of users that are in it.
  /// `given`: what stands for nodes of the body, its own inputs among them. `captured`: what stands
  /// for each captured value.
  [[nodiscard]] std::vector<Tensor> replay(Trace& trace, std::map<NodeId, Tensor> given,
                                           const std::vector<Tensor>& captured) const;

 private:
  friend class Trace;
  std::vector<NodeId> own_inputs_, captured_, captured_inputs_, results_;
  std::vector<NodeId> nodes_;   // inputs included, in order
  std::vector<Node> recorded_;  // the same
  std::vector<OwnGradient> own_gradients_;
  std::set<NodeId> stopped_;
  Graph frame_;  // what bodies take over from the graph around
};

}  // namespace lockstep::worker
