// Graphs made by hand, for tests of the stages after the tracer. The shape rules complete every
// node, so a graph made here is one that a trace could have made.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

class GraphBuilder {
 public:
  using Sizes = std::vector<shapes::Expr>;
  using Dims = std::vector<std::int64_t>;

  explicit GraphBuilder(std::string name) { graph_.name = std::move(name); }

  /// A backed symbol bound by `source` ("x.size(0)" or an int's name).
  shapes::Expr symbol(std::string source);
  /// Requires that no other node has been added yet.
  NodeId input(std::string name, DType dtype, Sizes sizes);
  NodeId scalar(const shapes::Expr& value);
  NodeId full(DType dtype, Sizes sizes, double value);
  NodeId iota(Sizes sizes, std::int64_t dim);
  NodeId op(Op op, std::vector<NodeId> inputs);
  NodeId cast(NodeId x, DType dtype);
  NodeId reshape(NodeId x, Sizes sizes);
  NodeId permute(NodeId x, Dims dims);
  NodeId expand(NodeId x, Sizes sizes);
  NodeId slice(NodeId x, std::int64_t dim, const shapes::Expr& start, const shapes::Expr& length);
  NodeId pad(NodeId x, std::int64_t dim, const shapes::Expr& before, const shapes::Expr& after);
  NodeId cat(std::vector<NodeId> xs, std::int64_t dim);
  /// Unfold and Overlay: dim, stride and dilation of each windowed dim, and the result's sizes.
  NodeId windows(Op op, NodeId x, Dims ints, Sizes sizes);
  NodeId flip(NodeId x, Dims dims) { return reduce(Op::Flip, x, std::move(dims)); }
  NodeId reduce(Op op, NodeId x, Dims dims);
  NodeId search_sorted(NodeId sorted, NodeId values, std::int64_t right);
  NodeId index_add(NodeId index, NodeId rows, const shapes::Expr& count);
  NodeId gather(NodeId x, std::int64_t dim, NodeId index);
  NodeId checked_index(NodeId index, const shapes::Expr& limit);
  NodeId index_put(NodeId x, NodeId index, NodeId rows, Put mode);
  /// Attention and AttentionGradient.
  NodeId attention(Op op, std::vector<NodeId> operands, bool causal);
  NodeId segment_ids(NodeId counts, const shapes::Expr& total);
  NodeId nonzero(NodeId mask, const shapes::Expr& count);
  NodeId all_to_all(NodeId x, Sizes in, Sizes out);
  NodeId collective(Op op, NodeId x, std::int64_t attribute);
  /// The symbols that a ToList or Item binds.
  std::vector<shapes::Expr> read(Op op, NodeId x);
  void check(const shapes::Predicate& predicate, std::string message = {});
  /// "out0", "out1", …
  void output(NodeId x);

  [[nodiscard]] const TensorMeta& meta(NodeId id) const { return graph_.nodes[id].meta; }
  /// Sets the line of nodes made from now on: "model.cpp:LINE".
  void line(std::uint32_t number) { line_ = number; }
  /// Requires a graph that satisfies the structural rules.
  [[nodiscard]] Graph take();

 private:
  NodeId add(Node node);
  Graph graph_;
  std::uint32_t unbacked_ = 0, line_ = 1;
};

}  // namespace lockstep::worker
