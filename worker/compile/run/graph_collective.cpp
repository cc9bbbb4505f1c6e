#include <cstddef>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/compile/run/graph_collective.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {
namespace {

using Kind = collectives::Collective::Kind;

constexpr OpMap<Kind> kKinds(of_class<OpClass::Collective>,
                             {{Op::AllToAll, Kind::AllToAll},
                              {Op::AllReduce, Kind::AllReduce},
                              {Op::AllGather, Kind::AllGather},
                              {Op::ReduceScatter, Kind::ReduceScatter},
                              {Op::Broadcast, Kind::Broadcast}});

}  // namespace

std::int64_t elements_of(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (std::int64_t size : sizes) n *= size;
  return n;
}

void fill_root(const Node& node, const NodeBuffers& buffers) {
  const std::size_t bytes =
      static_cast<std::size_t>(elements_of(buffers.result_sizes)) * dtype_size(node.meta.dtype);
  if (node.op == Op::Broadcast && bytes > 0) std::memcpy(buffers.result, buffers.operand, bytes);
}

collectives::Collective collective_of(const Node& node, const NodeBuffers& buffers,
                                      std::string_view label) {
  collectives::Collective out;
  out.dtype = node.meta.dtype;
  out.send = buffers.operand;
  out.receive = buffers.result;
  out.label = label;
  // Whole rows, as the communicator counts them; a 0-d value is one row of one element.
  const auto& sizes = node.op == Op::AllGather ? buffers.operand_sizes : buffers.result_sizes;
  out.rows = sizes.empty() ? 1 : sizes[0];
  out.row_elements = sizes.empty() ? 1 : elements_of(sizes.subspan(1));
  out.kind = kKinds[node.op];
  if (node.op == Op::AllToAll) {
    const std::size_t ranks = buffers.exprs.size() / 2;
    out.send_rows = buffers.exprs.first(ranks);
    out.receive_rows = buffers.exprs.subspan(ranks);
  }
  if (node.op == Op::AllReduce) out.reduce = static_cast<collectives::Reduce>(node.ints.at(0));
  if (node.op == Op::Broadcast) out.root = Rank{static_cast<std::int32_t>(node.ints.at(0))};
  return out;
}

Result<void> take_part_with_zeros(collectives::Communicator& communicator, const Node& node,
                                  NodeBuffers buffers, DType operand, std::string_view label) {
  const auto bytes = [](std::span<const std::int64_t> sizes, DType dtype) {
    return static_cast<std::size_t>(elements_of(sizes)) * dtype_size(dtype);
  };
  const std::vector<std::byte> sent(bytes(buffers.operand_sizes, operand));
  std::vector<std::byte> received(bytes(buffers.result_sizes, node.meta.dtype));
  buffers.operand = sent.data();
  buffers.result = received.data();
  return communicator.run(collective_of(node, buffers, label));
}

Result<collectives::Communicator*> ranks_of(const Node& node, collectives::Communicator& frames,
                                            RunHost& host) {
  collectives::Communicator* ranks = node.text.empty() ? &frames : host.group(node.text);
  if (ranks != nullptr) return ranks;
  return internal_error(fmt::format("{}: this rank is in no such group", collective_label(node)));
}

std::string collective_label(const Node& node) {
  std::string name(op_row(node.op).name);
  if (!node.text.empty()) name += " of group " + node.text;
  return node.where.file.empty() ? name : fmt::format("{} at {}", name, node.where.text());
}

std::optional<Status> splits_failure(const Graph& graph, NodeId id,
                                     std::span<const std::int64_t> splits,
                                     std::int64_t operand_rows, std::int64_t result_rows,
                                     int group_size) {
  const std::size_t ranks = splits.size() / 2;
  if (ranks != static_cast<std::size_t>(group_size))
    return Status{Code::RuntimeAssert,
                  fmt::format("{} has splits for {} ranks, but runs in a group of {}",
                              collective_label(graph.nodes.at(id)), ranks, group_size)};
  if (!counts_add_up(splits.first(ranks), operand_rows))
    return counts_failure(graph, id, splits.first(ranks), operand_rows);
  if (!counts_add_up(splits.subspan(ranks), result_rows))
    return counts_failure(graph, id, splits.subspan(ranks), result_rows);
  return std::nullopt;
}

}  // namespace lockstep::worker
