#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/emit_cuda.h>
#include <lockstep/worker/compile/sums/sum_order.h>

namespace lockstep::worker {

using shapes::Expr;

// For any split the terms and their order are those of sums/sum_order.h: hints decide only how many
// threads share the work. A total is stored at the number of its output.
void CudaEmitter::sum(NodeId id) {
  const NodeId operand = node(id).inputs[0];
  const Loops loops = sum_loops(id);
  const Expr outputs = total(id).front(), runs = shapes::product(loops.outer),
             n = shapes::product(loops.run);
  const SumSplit split = split_sum(hint(outputs), hint(runs), hint(n), loops.rows);
  CudaSum sum{std::string(product_text(id)),
              std::string(type(operand)),
              body().number(n).text,
              {},
              loops.rows,
              split};
  const Access kept = body().open_loops(loops.kept);
  nest().set_free();
  const Access outer = body().open_loops(loops.outer);
  nest().open_as("[&](long i)");
  const IndexText i = index_name("i", nest().innermost());
  inner(fmt::format("return {};", body().value(operand, loops.access(kept.index, outer.index,
                                                                     split_index(loops.run, i)))));
  if (split != SumSplit::Pieces) {
    sum.end = fmt::format("{}[output] = ({})total_of<{}>(terms);", body().buffer(id, true),
                          type(id), sum.product);
    return add_kernel(cuda_sum_text(nest(), sum),
                      outputs * Expr(split == SumSplit::Lanes ? kSumLanes : 1));
  }
  // An upper bound: each run may leave some elements over.
  const Expr terms =
      runs * (floor_div(n, Expr(loops.rows ? kSumBlock : kSumFew)) + Expr(loops.rows ? 2 : 3));
  Expr batches = ceil_div(terms, kSumTerms);
  const auto scratch = [&](const Expr& parts) {
    emission_.scratch.push_back({DType::F64, parts * outputs});
    return body().scratch(emission_.scratch.size() - 1, DType::F64);
  };
  // The kernels count the actual number of terms.
  const auto count = [&] {
    return fmt::format("  const long outputs = {}, count = {} * {}_terms({});\n",
                       body().number(outputs).text, body().number(runs).text,
                       loops.rows ? "row" : "column", body().number(n).text);
  };
  const auto join = [&](const std::string& what, const std::string& items) {
    return fmt::format(
        "  for (long item = (long)blockIdx.x * {0} + threadIdx.x; item < outputs * {1}; item += "
        "(long)gridDim.x * {0}) {{\n    const long output = item % outputs, part = item / "
        "outputs;\n"
        "    {2}\n  }}\n",
        kCudaBlock, items, what);
  };
  const std::string& product = sum.product;
  sum.end = scratch(loops.rows ? terms : batches) + "[item] = total;";
  add_kernel(cuda_sum_text(nest(), sum),
             outputs * (loops.rows ? terms * Expr(kSumLanes) : batches));
  std::string number = "((count + 31) / 32)", from = body().scratch(0, DType::F64);
  if (loops.rows) {
    const std::string to = scratch(batches);
    from = body().scratch(0, DType::F64);
    add_kernel(
        count() +
            join(fmt::format("{}[item] = batch_of<{}>({} + output, outputs, part * 32, count);", to,
                             product, from),
                 number),
        outputs * batches);
  }
  for (; hint(batches) > kSumTerms; batches = ceil_div(batches, kSumTerms)) {
    const std::size_t last = emission_.scratch.size() - 1;
    const std::string to = scratch(ceil_div(batches, kSumTerms));
    from = body().scratch(last, DType::F64);
    add_kernel(
        count() + fmt::format("  const long batches = {};\n", number) +
            join(fmt::format(
                     "{}[item] = pairwise_of<{}>({} + output, outputs, part * 32, batches, 32);",
                     to, product, from),
                 "((batches + 31) / 32)"),
        outputs * ceil_div(batches, kSumTerms));
    number = fmt::format("(({} + 31) / 32)", number);
  }
  from = body().scratch(emission_.scratch.size() - 1, DType::F64);
  const std::string into = body().buffer(id, true);
  add_kernel(
      count() + fmt::format("  const long batches = {};\n", number) +
          join(fmt::format(
                   "{}[item] = ({})pairwise_of<{}>({} + output, outputs, 0, batches, batches);",
                   into, type(id), product, from),
               "1"),
      outputs);
}

}  // namespace lockstep::worker
