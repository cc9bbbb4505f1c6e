#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/emit_cuda.h>
#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/compile/sums/join_order.h>
#include <lockstep/worker/compile/sums/sum_order.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

using shapes::Expr;

namespace {

// Most blocks of a launch: enough to fill any device several times. Threads stride over more work.
constexpr std::int64_t kMaxBlocks = 4096;
// Size assumed if no hint is known: for a size that is read in the run.
constexpr std::int64_t kUnknownSize = 4096;

Expr blocks(const Expr& threads) {
  const Expr needed = floor_div(threads + Expr(kCudaBlock - 1), Expr(kCudaBlock));
  return shapes::max(Expr(1), shapes::min(Expr(kMaxBlocks), needed));
}

}  // namespace

CudaEmitter::CudaEmitter(const Graph& graph, const Plan& plan)
    : Emitter(graph, plan, Indices::Unchecked) {
  for (const SymbolBinding& binding : graph.symbols) hints_[binding.symbol] = binding.hint;
}

std::int64_t CudaEmitter::hint(const Expr& size) const {
  const auto value = size.evaluate([&](shapes::Symbol symbol) -> std::optional<std::int64_t> {
    const auto found = hints_.find(symbol);
    return found == hints_.end() ? kUnknownSize : found->second;
  });
  return std::max<std::int64_t>(value.value_or(kUnknownSize), 0);
}

void CudaEmitter::add_kernel(const std::string& text, const Expr& threads) {
  emission_.kernels.push_back(finish_kernel(text));
  emission_.kernels.back().blocks = blocks(threads);
}

void CudaEmitter::elementwise(const PlannedStep& step) {
  elementwise_nest(step);
  const Expr elements = total(step.roots.front()).front();
  if (!step.flat || nest().free() != 1) return add_kernel(cuda_text(nest()), elements);
  // Buffers are aligned to at least 16 bytes, so neighbours are loaded at once.
  const std::string loops = cuda_vector_text(nest());
  add_kernel(body().aligned_text() + loops,
             floor_div(elements + Expr(kCudaVector - 1), Expr(kCudaVector)));
}

void CudaEmitter::reduction(NodeId id) {
  if (has_sum_order(node(id))) return sum(id);
  const auto& sizes = node(node(id).inputs[0]).meta.sizes;
  Expr gone(1);
  std::size_t last = sizes.size();
  while (last > 1 && sizes[last - 1].constant() == std::optional<std::int64_t>(1)) --last;
  bool adjacent = false;
  for (std::int64_t dim : node(id).ints) {
    gone = gone * sizes[static_cast<std::size_t>(dim)];
    adjacent = adjacent || dim + 1 == static_cast<std::int64_t>(last);
  }
  const Expr outputs = total(id).front();
  const Reduced made = reduction_nest(id);
  Split split;
  if (node(id).op != Op::Argmax && nest().innermost() > made.level)
    split = split_reduction(hint(outputs), hint(gone), adjacent);
  if (split.pieces == 1) {
    nest().after(made.level, fmt::format("{} = total;", body().element(id, made.kept, true)));
    return add_kernel(cuda_reduction_text(nest(), split), outputs * Expr(split.lanes));
  }
  emission_.scratch.push_back({node(id).meta.dtype, outputs * Expr(split.pieces)});
  nest().after(made.level, fmt::format("{}[output * {} + piece] = total;",
                                       body().scratch(0, node(id).meta.dtype), split.pieces));
  add_kernel(cuda_reduction_text(nest(), split), outputs * Expr(split.pieces * split.lanes));
  join_pieces(id, split.pieces);
}

void CudaEmitter::join_pieces(NodeId id, std::int64_t pieces) {
  const Expr outputs = total(id).front();
  const Access access = body().open_loops(total(id));
  nest().set_free();
  const int level = nest().innermost();
  const IndexText piece = nest().open(index_constant(pieces));
  inner(fmt::format("const {} part = {}[{}];", type(id), body().scratch(0, node(id).meta.dtype),
                    (access.index[0] * index_constant(pieces) + piece).text));
  accumulate(node(id).op, node(id).meta.dtype, "part", level);
  nest().after(level, fmt::format("{} = total;", body().element(id, access, true)));
  Split split = split_reduction(hint(outputs), pieces, true);
  split.pieces = 1;
  add_kernel(cuda_reduction_text(nest(), split), outputs * Expr(split.lanes));
}

void CudaEmitter::own(NodeId id) {
  const std::string threads = fmt::format(
      "thread = (long)blockIdx.x * {0} + threadIdx.x, threads = (long)gridDim.x * {0}", kCudaBlock);
  add_kernel(own_body(id, threads, node(id).own->cuda_text), total(id).front());
}

void CudaEmitter::concatenation(NodeId id) {
  std::string out;
  Expr start;
  for (NodeId operand : node(id).inputs) {
    part_nest(id, operand, start);
    out += scoped(cuda_text(nest()));
    start = start + node(operand).meta.sizes[static_cast<std::size_t>(node(id).ints[0])];
  }
  add_kernel(out, total(id).front());
}

void CudaEmitter::sort(NodeId x, const Named& order, const Named& other) {
  const Expr elements = total(x).front(), &size = node(x).meta.sizes.back();
  const Access access = body().open_loops(node(x).meta.sizes);
  nest().set_free();
  inner(fmt::format("{}[{}] = {};", order(), body().offset(access).text, access.index.back().text));
  add_kernel(cuda_text(nest()), elements);
  const std::string values = body().buffer(x), from = order(), to = other(),
                    n = body().number(size).text;
  add_kernel(elements == size
                 ? fmt::format("  merge_step({}, {}, {}, {}, width);\n", values, from, to, n)
                 : fmt::format("  merge_rows({}, {}, {}, {}, {}, width);\n", values, from, to,
                               body().number(elements).text, n),
             elements);
  emission_.kernels.back().parameters += ", long width";
  emission_.kernels.back().merged = size;
}

void CudaEmitter::argsort(NodeId id) {
  emission_.scratch.push_back({DType::I64, total(id).front()});
  sort(
      node(id).inputs[0], [&] { return body().buffer(id, true); },
      [&] { return body().scratch(0, DType::I64); });
}

void CudaEmitter::index_add(NodeId id) {
  const NodeId index = node(id).inputs[0], rows = node(id).inputs[1];
  if (has_join_order(node(id)) && !joins_numbers(node(id))) return join_columns(id);
  if (!has_join_order(node(id)))
    return join_rows(
        id, index, rows,
        {[&](const Access&) { return fmt::format("{} total = 0;", type(id)); },
         [](const std::string& value) { return fmt::format("total += {};", value); }, "total"});
  const NumberSum sum = number_sum(id);
  join_rows(id, index, rows,
            {[](const Access&) { return std::string("double total = 0, lost = 0;"); },
             [&](const std::string& value) { return sum.add("total", "lost", value); },
             sum.value("total", "lost")});
}

void CudaEmitter::index_put(NodeId id) {
  join_rows(id, node(id).inputs[1], node(id).inputs[2],
            {[&](const Access& access) {
               return fmt::format("{} total = {};", type(id),
                                  body().value(node(id).inputs[0], access));
             },
             [&](const std::string& value) { return put_text(id, "total", value); }, "total"});
}

CudaEmitter::Found CudaEmitter::find_rows(NodeId id, NodeId index) {
  const Expr count = total(index).front();
  emission_.scratch.push_back({DType::I64, count});
  emission_.scratch.push_back({DType::I64, count});
  sort(
      index, [&] { return body().scratch(0, DType::I64); },
      [&] { return body().scratch(1, DType::I64); });
  Found found{body().open_loops(node(id).meta.sizes), body().scratch(0, DType::I64)};
  nest().set_free();
  const std::string list = body().buffer(index), n = body().number(count).text,
                    row = found.access.index[0].text;
  nest().before(
      nest().innermost(),
      fmt::format("const long first = first_place({0}, {1}, {2}, {3}), past = first_place({0}, "
                  "{1}, {2}, {3} + 1);",
                  list, found.order, n, row));
  return found;
}

void CudaEmitter::join_rows(NodeId id, NodeId index, NodeId rows, const Join& join) {
  auto [access, order] = find_rows(id, index);
  const int level = nest().innermost();
  nest().before(level, join.first(access));
  const std::string into = body().element(id, access, true);
  nest().open_as("for (long s = first; s < past; ++s)");
  inner(fmt::format("const long row = {}[s];", order));
  access.index[0] = index_name("row", nest().innermost());
  access.sizes = node(rows).meta.sizes;
  inner(join.add(body().value(rows, access)));
  nest().after(level, fmt::format("{} = {};", into, join.result));
  add_kernel(cuda_text(nest()), total(id).front());
}

void CudaEmitter::join_columns(NodeId id) {
  const NodeId rows = node(id).inputs[1];
  auto [access, order] = find_rows(id, node(id).inputs[0]);
  const int level = nest().innermost();
  nest().before(level, "Terms terms;\nstart_terms<false>(terms);");
  const std::string into = body().element(id, access, true);
  nest().open_as(fmt::format("add_column<false, {}>(terms, past - first, [&](long k)", type(id)));
  inner(fmt::format("const long row = {}[first + k];", order));
  access.index[0] = index_name("row", nest().innermost());
  access.sizes = node(rows).meta.sizes;
  inner(fmt::format("return {};", body().value(rows, access)));
  nest().after(level, fmt::format(");\n{} = ({})total_of<false>(terms);", into, type(id)));
  add_kernel(cuda_text(nest()), total(id).front());
}

void CudaEmitter::add_check(NodeId list, const Expr& limit, std::string_view pointers,
                            const Split& split) {
  add_kernel(cuda_reduction_text(nest(), split), Expr(split.pieces * split.lanes));
  // Sizes are arguments even if they are constant: one text serves all checks.
  KernelText& kernel = emission_.kernels.back();
  kernel.parameters = fmt::format("const long* __restrict b0, {}, long n0, long n1", pointers);
  kernel.buffers = {list};
  kernel.arguments = {total(list).front(), limit};
}

// The outcome is a minimum, which does not depend on how the work is divided, so it needs no
// atomic. It is always written, so nothing needs to be cleared before a run or a recording.
Emission CudaEmitter::index_check(NodeId list, const Expr& limit) {
  const Total least{"long", "total", "n0", Total::Join::Min};
  const auto outcome = [&] {
    nest().after(-1, "found[0] = total < n0 ? total : -1;");
    nest().after(-1, "found[1] = total < n0 ? b0[total] : 0;");
  };
  const Split split = split_reduction(1, hint(total(list).front()), true);
  nest().total(-1, least);
  const std::string at = nest().open(index_name("n0", -1)).text;
  inner(
      fmt::format("total = (unsigned long)b0[{0}] >= (unsigned long)n1 && {0} < total ? {0} : "
                  "total;",
                  at));
  if (split.pieces == 1) {
    outcome();
    add_check(list, limit, "long* __restrict found", split);
    return std::move(emission_);
  }
  emission_.scratch.push_back({DType::I64, Expr(split.pieces)});
  nest().after(-1, "p0[piece] = total;");
  add_check(list, limit, "long* __restrict p0", split);
  emission_.kernels.back().scratch = {0};
  nest().total(-1, least);
  const std::string piece = nest().open(index_constant(split.pieces)).text;
  inner(fmt::format("total = p0[{0}] < total ? p0[{0}] : total;", piece));
  outcome();
  Split join = split_reduction(1, split.pieces, true);
  join.pieces = 1;
  add_check(list, limit, "const long* __restrict p0, long* __restrict found", join);
  emission_.kernels.back().scratch = {0};
  return std::move(emission_);
}

Emission CudaEmitter::counts_check(NodeId counts, const Expr& rows) {
  nest().before(-1, "long left = n1;\nbool fits = true;");
  const std::string at = nest().open(index_name("n0", -1)).text;
  inner(fmt::format("const long count = b0[{0}];\nfound[1 + {0}] = count;", at));
  inner("fits = fits && count >= 0 && count <= left;\nif (fits) left -= count;");
  nest().after(-1, "found[0] = fits && left == 0 ? -1 : 0;");
  add_check(counts, rows, "long* __restrict found", Split());
  return std::move(emission_);
}

Emission emit_counts_check(const Graph& graph, const Plan& plan, NodeId segment_ids) {
  const Node& node = graph.nodes[segment_ids];
  return CudaEmitter(graph, plan).counts_check(node.inputs[0], node.meta.sizes[0]);
}

Emission emit_index_check(const Graph& graph, const Plan& plan, NodeId list, const Expr& limit) {
  return CudaEmitter(graph, plan).index_check(list, limit);
}

void CudaEmitter::search_sorted(NodeId id) {
  search_nest(id);
  add_kernel(cuda_text(nest()), total(id).front());
}

void CudaEmitter::segment_ids(NodeId id) {
  const NodeId counts = node(id).inputs[0];
  const Expr segments = total(counts).front();
  emission_.scratch.push_back({DType::I64, segments});
  nest().before(-1, "long end = 0;");
  const Access segment = body().open_loops(node(counts).meta.sizes);
  inner(fmt::format("end += {};", body().value(counts, segment)));
  inner(fmt::format("{}[{}] = end;", body().scratch(0, DType::I64), segment.index[0].text));
  add_kernel(cuda_text(nest()), Expr(1));
  const Access access = body().open_loops(node(id).meta.sizes);
  nest().set_free();
  inner(fmt::format("{} = segment_of({}, {}, {});", body().element(id, access, true),
                    body().scratch(0, DType::I64), body().number(segments).text,
                    access.index[0].text));
  add_kernel(cuda_text(nest()), total(id).front());
}

}  // namespace lockstep::worker
