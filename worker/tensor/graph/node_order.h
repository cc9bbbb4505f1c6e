// The order of a finished graph's nodes: inputs first, asserts as soon as they can be tested,
// unneeded nodes left out. Called by the tracer at the end of a trace.
#pragma once

#include <map>
#include <set>
#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Nodes that are not moved keep the order in which they were recorded. Keeps inputs, collectives,
/// host syncs, outputs and the nodes that these need. An object is used once.
class NodeOrder {
 public:
  NodeOrder(std::vector<Node> nodes, const std::vector<Graph::Output>& outputs);

  /// Adds an assert. It comes right after the node that binds its last symbol, or after the inputs.
  void add(const shapes::DeferredAssert& deferred);

  enum class Checks {
    AsRecorded,
    /// Values read back, with the asserts on them, come before an exchange of counts that they do
    /// not depend on: a rank whose own counts are wrong then knows so in time to report the failure
    /// in the exchange (error_sync_points.h).
    BeforeCounts,
  };
  [[nodiscard]] std::vector<Node> place(Checks checks);
  /// The new number of a node.
  [[nodiscard]] NodeId placed(NodeId id) const { return place_[id]; }

 private:
  struct Due {
    shapes::DeferredAssert what;
    std::set<NodeId> binders;  // not placed yet
    NodeId after = 0;          // the last binder in the order of recording
  };
  void put(NodeId id);
  void put(const shapes::DeferredAssert& deferred);
  void put_reads_before(NodeId exchange);
  [[nodiscard]] bool gather_early(NodeId id, std::set<NodeId>& found) const;
  [[nodiscard]] bool may_come_early(const Node& node, NodeId id) const;

  std::vector<Node> nodes_, placed_;
  std::vector<NodeId> place_;
  std::vector<bool> needed_, done_;
  std::map<shapes::Symbol, NodeId> binder_;
  std::vector<Due> due_;
};

}  // namespace lockstep::worker
