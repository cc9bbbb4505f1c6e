#include "graph_builder.h"

#include <cstdio>
#include <cstdlib>

#include <lockstep/worker/tensor/graph/shape_rules.h>

namespace lockstep::worker {
namespace {

void require(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "a test made a broken graph: %s\n", result.error().text().c_str());
  std::abort();
}

Node node_of(Op op, std::vector<NodeId> inputs = {}) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  return node;
}

}  // namespace

NodeId GraphBuilder::add(Node node) {
  std::vector<TensorMeta> operands;
  for (NodeId input : node.inputs) operands.push_back(graph_.nodes[input].meta);
  const auto meta = result_meta(node, operands);
  require(meta ? Result<void>() : Result<void>(meta.error()));
  node.meta = *meta;
  node.where = {"model.cpp", line_};
  graph_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph_.nodes.size() - 1);
}

shapes::Expr GraphBuilder::symbol(std::string source) {
  const shapes::Symbol symbol{false, static_cast<std::uint32_t>(graph_.symbols.size())};
  graph_.symbols.push_back({symbol, std::move(source), 2});
  return shapes::Expr::symbol(symbol);
}

NodeId GraphBuilder::input(std::string name, DType dtype, Sizes sizes) {
  Node node = node_of(Op::Input);
  node.text = std::move(name);
  node.meta = {dtype, std::move(sizes)};
  return add(std::move(node));
}

NodeId GraphBuilder::scalar(const shapes::Expr& value) {
  Node node = node_of(Op::Scalar);
  node.exprs = {value};
  return add(std::move(node));
}

NodeId GraphBuilder::full(DType dtype, Sizes sizes, double value) {
  Node node = node_of(Op::Full);
  node.number = value;
  node.meta = {dtype, std::move(sizes)};
  return add(std::move(node));
}

NodeId GraphBuilder::iota(Sizes sizes, std::int64_t dim) {
  Node node = node_of(Op::Iota);
  node.ints = {dim};
  node.meta = {DType::I64, std::move(sizes)};
  return add(std::move(node));
}

NodeId GraphBuilder::op(Op op, std::vector<NodeId> inputs) {
  return add(node_of(op, std::move(inputs)));
}

NodeId GraphBuilder::cast(NodeId x, DType dtype) {
  Node node = node_of(Op::Cast, {x});
  node.meta = {dtype, meta(x).sizes};
  return add(std::move(node));
}

NodeId GraphBuilder::reshape(NodeId x, Sizes sizes) {
  Node node = node_of(Op::Reshape, {x});
  node.meta = {meta(x).dtype, std::move(sizes)};
  return add(std::move(node));
}

NodeId GraphBuilder::permute(NodeId x, Dims dims) {
  Node node = node_of(Op::Permute, {x});
  node.ints = std::move(dims);
  return add(std::move(node));
}

NodeId GraphBuilder::expand(NodeId x, Sizes sizes) {
  Node node = node_of(Op::Expand, {x});
  node.meta = {meta(x).dtype, std::move(sizes)};
  return add(std::move(node));
}

NodeId GraphBuilder::slice(NodeId x, std::int64_t dim, const shapes::Expr& start,
                           const shapes::Expr& length) {
  Node node = node_of(Op::Slice, {x});
  node.ints = {dim};
  node.exprs = {start};
  node.meta = meta(x);
  node.meta.sizes[static_cast<std::size_t>(dim)] = length;
  return add(std::move(node));
}

NodeId GraphBuilder::pad(NodeId x, std::int64_t dim, const shapes::Expr& before,
                         const shapes::Expr& after) {
  Node node = node_of(Op::Pad, {x});
  node.ints = {dim};
  node.exprs = {before, after};
  return add(std::move(node));
}

NodeId GraphBuilder::windows(Op op, NodeId x, Dims ints, Sizes sizes) {
  Node node = node_of(op, {x});
  node.ints = std::move(ints);
  node.meta = {meta(x).dtype, std::move(sizes)};
  return add(std::move(node));
}

NodeId GraphBuilder::cat(std::vector<NodeId> xs, std::int64_t dim) {
  Node node = node_of(Op::Cat, std::move(xs));
  node.ints = {dim};
  return add(std::move(node));
}

NodeId GraphBuilder::reduce(Op op, NodeId x, Dims dims) {
  Node node = node_of(op, {x});
  node.ints = std::move(dims);
  return add(std::move(node));
}

NodeId GraphBuilder::search_sorted(NodeId sorted, NodeId values, std::int64_t right) {
  Node node = node_of(Op::SearchSorted, {sorted, values});
  node.ints = {right};
  return add(std::move(node));
}

NodeId GraphBuilder::attention(Op op, std::vector<NodeId> operands, bool causal) {
  Node node = node_of(op, std::move(operands));
  node.ints = {causal ? 1 : 0};
  return add(std::move(node));
}

NodeId GraphBuilder::index_add(NodeId index, NodeId rows, const shapes::Expr& count) {
  Node node = node_of(Op::IndexAdd, {index, rows});
  node.exprs = {count};
  return add(std::move(node));
}

NodeId GraphBuilder::gather(NodeId x, std::int64_t dim, NodeId index) {
  Node node = node_of(Op::Gather, {x, index});
  node.ints = {dim};
  return add(std::move(node));
}

NodeId GraphBuilder::checked_index(NodeId index, const shapes::Expr& limit) {
  Node node = node_of(Op::CheckedIndex, {index});
  node.exprs = {limit};
  node.ints = {0};
  return add(std::move(node));
}

NodeId GraphBuilder::index_put(NodeId x, NodeId index, NodeId rows, Put mode) {
  Node node = node_of(Op::IndexPut, {x, index, rows});
  node.ints = {static_cast<std::int64_t>(mode)};
  return add(std::move(node));
}

NodeId GraphBuilder::segment_ids(NodeId counts, const shapes::Expr& total) {
  Node node = node_of(Op::SegmentIds, {counts});
  node.exprs = {total};
  return add(std::move(node));
}

NodeId GraphBuilder::nonzero(NodeId mask, const shapes::Expr& count) {
  Node node = node_of(Op::Nonzero, {mask});
  node.exprs = {count};
  return add(std::move(node));
}

NodeId GraphBuilder::all_to_all(NodeId x, Sizes in, Sizes out) {
  Node node = node_of(Op::AllToAll, {x});
  node.exprs = std::move(in);
  node.exprs.insert(node.exprs.end(), out.begin(), out.end());
  return add(std::move(node));
}

NodeId GraphBuilder::collective(Op op, NodeId x, std::int64_t attribute) {
  Node node = node_of(op, {x});
  node.ints = {attribute};
  return add(std::move(node));
}

std::vector<shapes::Expr> GraphBuilder::read(Op op, NodeId x) {
  Node node = node_of(op, {x});
  const std::int64_t count = op == Op::Item ? 1 : *meta(x).sizes[0].constant();
  std::vector<shapes::Expr> out;
  for (std::int64_t k = 0; k < count; ++k) {
    node.binds.push_back({true, unbacked_++});
    out.push_back(shapes::Expr::symbol(node.binds.back()));
  }
  add(std::move(node));
  return out;
}

void GraphBuilder::check(const shapes::Predicate& predicate, std::string message) {
  Node node = node_of(Op::Assert);
  node.asserts = {{predicate, {"model.cpp", line_}, std::move(message)}};
  add(std::move(node));
}

void GraphBuilder::output(NodeId x) {
  graph_.outputs.push_back({"out" + std::to_string(graph_.outputs.size()), x});
}

Graph GraphBuilder::take() {
  require(graph_.verify());
  return std::move(graph_);
}

}  // namespace lockstep::worker
