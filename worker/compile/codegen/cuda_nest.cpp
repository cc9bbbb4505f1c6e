#include <span>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>

namespace lockstep::worker {
namespace {

using Loops = std::span<const LoopNest::Loop>;

std::string lines(std::span<const std::string> statements, std::size_t depth) {
  std::string out;
  for (const std::string& statement : statements) out += indented(statement, depth);
  return out;
}

std::string line(const std::string& statement, std::size_t depth) {
  return indented(statement, depth);
}

/// Returns the number of iterations of all loops: "(n0 * n1)".
std::string product(Loops loops) {
  std::string out;
  for (const LoopNest::Loop& loop : loops)
    out = out.empty() ? loop.size : fmt::format("({} * {})", out, loop.size);
  return out.empty() ? "1" : out;
}

/// Declares the loops' variables, computed from `number`, the number of the iteration.
std::string variables(Loops loops, std::string number, std::size_t depth) {
  std::string out;
  for (std::size_t k = loops.size(); k-- > 0;) {
    const LoopNest::Loop& loop = loops[k];
    if (k == 0) {
      out += line(fmt::format("const long {} = {};", loop.variable, number), depth);
      break;
    }
    out += line(fmt::format("const long {} = {} % {};", loop.variable, number, loop.size), depth);
    const std::string rest = loop.variable + "_";
    if (k > 1) out += line(fmt::format("const long {} = {} / {};", rest, number, loop.size), depth);
    number = k > 1 ? rest : fmt::format("{} / {}", number, loop.size);
  }
  return out;
}

std::string grid_stride(std::string_view variable, std::string_view end, std::size_t depth) {
  return line(fmt::format("for (long {0} = (long)blockIdx.x * {1} + threadIdx.x; {0} < {2}; {0} += "
                          "(long)gridDim.x * {1}) {{",
                          variable, kCudaBlock, end),
              depth);
}

std::string join(const Total& total) {
  const std::string other = fmt::format("{}_of[threadIdx.x + width]", total.name);
  switch (total.join) {
    case Total::Join::Sum:
      return fmt::format("{} += {};", total.name, other);
    case Total::Join::Product:
      return fmt::format("{} *= {};", total.name, other);
    case Total::Join::Or:
      return fmt::format("{} |= {};", total.name, other);
    case Total::Join::Max:
      return fmt::format("{0} = {1} > {0} ? {1} : {0};", total.name, other);
    case Total::Join::Min:
      return fmt::format("{0} = {1} < {0} ? {1} : {0};", total.name, other);
  }
  return {};
}

/// Joins the lanes' totals pairwise: the first lane ends with the total of all.
std::string join_lanes(const LoopNest& nest, int lanes) {
  std::string out;
  for (const Total& total : nest.totals())
    out += line(fmt::format("{0}_of[threadIdx.x] = {0};", total.name), 2);
  out += line("__syncthreads();", 2);
  out += line(fmt::format("for (int width = {}; width > 0; width /= 2) {{", lanes / 2), 2);
  out += line("if (lane < width) {", 3);
  for (const Total& total : nest.totals())
    out += line(join(total) + fmt::format("\n{0}_of[threadIdx.x] = {0};", total.name), 4);
  out += line("}\n__syncthreads();", 3);
  return out + line("}", 2);
}

/// Opens the loop over totals, or over the pieces of each. Declares `output`, `piece`, and the
/// range of elements from `begin` to `end`.
std::string open_totals(const LoopNest& nest, const Split& split) {
  std::string out;
  const int per_block = kCudaBlock / split.lanes;
  if (split.pieces > 1)
    out += line(
        fmt::format("const long share = (reduced + {}) / {};", split.pieces - 1, split.pieces), 1);
  const std::string items =
      split.pieces > 1 ? fmt::format("outputs * {}", split.pieces) : "outputs";
  if (split.lanes == 1) {
    out += grid_stride("item", items, 1);
  } else {
    for (const Total& total : nest.totals())
      out += line(fmt::format("__shared__ {} {}_of[{}];", total.type, total.name, kCudaBlock), 1);
    out += line(fmt::format("const int lane = threadIdx.x % {};", split.lanes), 1);
    out += line(fmt::format("const long items = {};", items), 1);
    out +=
        line(fmt::format("for (long group = blockIdx.x; group * {} < items; group += gridDim.x) {{",
                         per_block),
             1);
    // Threads without an item of their own repeat the last one: all threads must reach the
    // barriers.
    out += line(fmt::format("const long mine = group * {} + threadIdx.x / {};\n"
                            "const long item = mine < items ? mine : items - 1;",
                            per_block, split.lanes),
                2);
  }
  if (split.pieces == 1)
    return out + line("const long output = item, begin = 0, end = reduced;", 2);
  return out + line(
                   "const long output = item % outputs, piece = item / outputs;\n"
                   "const long begin = piece * share;\n"
                   "const long end = begin + share < reduced ? begin + share : reduced;",
                   2);
}

}  // namespace

std::string cuda_text(const LoopNest& nest) {
  const std::size_t free = nest.free();
  if (free == 0)
    return line("if (blockIdx.x == 0 && threadIdx.x == 0) {", 1) + nest.text(0, 2) + line("}", 1);
  const Loops loops = Loops(nest.loops()).first(free);
  const std::string number = free == 1 ? loops[0].variable : "item";
  std::string out = lines(nest.before(-1), 1) + grid_stride(number, product(loops), 1);
  if (free > 1) out += variables(loops, number, 2);
  for (int level = 0; level + 1 < static_cast<int>(free); ++level)
    out += lines(nest.before(level), 2);
  return out + nest.text(free, 2) + line("}", 1);
}

std::string cuda_vector_text(const LoopNest& nest) {
  if (nest.free() != 1 || nest.loops().size() != 1) return cuda_text(nest);
  const LoopNest::Loop& loop = nest.loops()[0];
  std::string out = lines(nest.before(-1), 1);
  out += grid_stride("t", fmt::format("{} / {}", loop.size, kCudaVector), 1);
  out += "#pragma unroll\n";
  out += line(fmt::format("for (long u = 0; u < {}; ++u) {{", kCudaVector), 2);
  out += line(fmt::format("const long {} = t * {} + u;", loop.variable, kCudaVector), 3);
  out += lines(nest.before(0), 3) + line("}", 2) + line("}", 1);
  out += line(fmt::format("for (long {0} = {1} / {2} * {2} + (long)blockIdx.x * {3} + threadIdx.x; "
                          "{0} < {1}; {0} += (long)gridDim.x * {3}) {{",
                          loop.variable, loop.size, kCudaVector, kCudaBlock),
              1);
  return out + lines(nest.before(0), 2) + line("}", 1);
}

std::string cuda_reduction_text(const LoopNest& nest, const Split& split) {
  if (split == Split()) return cuda_text(nest);
  const std::size_t free = nest.free();
  const Loops outer = Loops(nest.loops()).first(free), within = Loops(nest.loops()).subspan(free);
  // Without free loops, statements outside all loops belong inside the loop over totals.
  std::string out = free > 0 ? lines(nest.before(-1), 1) : std::string();
  out += line(fmt::format("const long outputs = {};\nconst long reduced = {};", product(outer),
                          product(within)),
              1);
  out += open_totals(nest, split) + variables(outer, "output", 2);
  for (int level = free > 0 ? 0 : -1; level < static_cast<int>(free); ++level)
    out += lines(nest.before(level), 2);
  out += line(fmt::format("for (long j = begin{}; j < end; j += {}) {{",
                          split.lanes > 1 ? " + lane" : "", split.lanes),
              2);
  out += variables(within, "j", 3);
  for (int level = static_cast<int>(free); level <= nest.innermost(); ++level)
    out += lines(nest.before(level), 3);
  out += line("}", 2);
  const std::span<const std::string> end = nest.after(static_cast<int>(free) - 1);
  if (split.lanes == 1) return out + lines(end, 2) + line("}", 1);
  return out + join_lanes(nest, split.lanes) + line("if (lane == 0 && mine < items) {", 2) +
         lines(end, 3) + line("}", 2) + line("}", 1);
}

namespace {

/// Returns the text inside the loops over runs: their statements, and the function `value`, which
/// returns an element of the run.
std::string run_text(const LoopNest& nest, std::size_t depth) {
  const std::size_t free = nest.free();
  const Loops outer = Loops(nest.loops()).subspan(free, nest.loops().size() - free - 1);
  std::string out = variables(outer, "run", depth);
  for (int level = static_cast<int>(free); level < nest.innermost(); ++level)
    out += lines(nest.before(level), depth);
  return out + line("const auto value = " + nest.loops().back().header + " {", depth) +
         lines(nest.before(nest.innermost()), depth + 1) + line("};", depth);
}

/// Joins the sixteen totals of a term: the first lane ends with the term.
std::string join_sum_lanes(const CudaSum& sum, std::size_t depth) {
  return line(fmt::format("lanes_of[threadIdx.x] = total;\n__syncthreads();\n"
                          "for (int width = 8; width > 0; width /= 2) {{\n"
                          "  if (lane < width) {{\n"
                          "    join<{}>(total, lanes_of[threadIdx.x + width]);\n"
                          "    lanes_of[threadIdx.x] = total;\n  }}\n  __syncthreads();\n}}",
                          sum.product),
              depth);
}

/// Opens the loop over items. Sixteen threads share each item and run through the loop together.
std::string open_lanes(std::string_view items) {
  return line(
      fmt::format("__shared__ double lanes_of[{0}];\nconst int lane = threadIdx.x % 16;\n"
                  "const long items = {1};\n"
                  "for (long group = blockIdx.x; group * {2} < items; group += gridDim.x) {{\n"
                  "  const long mine = group * {2} + threadIdx.x / 16;\n"
                  "  const long item = mine < items ? mine : items - 1;",
                  kCudaBlock, items, kCudaBlock / 16),
      1);
}

}  // namespace

std::string cuda_sum_text(const LoopNest& nest, const CudaSum& sum) {
  const std::size_t free = nest.free();
  const Loops kept = Loops(nest.loops()).first(free),
              outer = Loops(nest.loops()).subspan(free, nest.loops().size() - free - 1);
  const std::string arguments = fmt::format("{}, {}", sum.product, sum.type);
  std::string output = variables(kept, "output", 2);
  for (int level = 0; level < static_cast<int>(free); ++level)
    output += lines(nest.before(level), 2);
  std::string out = lines(nest.before(-1), 1);
  out += line(fmt::format("const long outputs = {}, runs = {};", product(kept), product(outer)), 1);
  const std::string terms =
      line(fmt::format("Terms terms;\nstart_terms<{}>(terms);", sum.product), 2);
  const std::string each_run = line("for (long run = 0; run < runs; ++run) {", 2);
  switch (sum.split) {
    case SumSplit::Alone:
      out += grid_stride("output", "outputs", 1) + output + terms + each_run + run_text(nest, 3);
      out += line(fmt::format("add_{}<{}>(terms, {}, value);", sum.rows ? "row" : "column",
                              arguments, sum.n),
                  3);
      return out + line("}", 2) + line(sum.end, 2) + line("}", 1);
    case SumSplit::Lanes:
      out += open_lanes("outputs") + line("const long output = item;", 2) + output + terms +
             each_run + run_text(nest, 3);
      out += line(fmt::format("for (long term = 0; term < row_terms({0}); ++term) {{\n"
                              "  double total = lane_of<{1}>({0}, term, lane, value);",
                              sum.n, arguments),
                  3);
      out += join_sum_lanes(sum, 4);
      out += line(fmt::format("  if (lane == 0) add_term<{}>(terms, total);\n}}", sum.product), 3);
      return out + line("}", 2) + line("if (lane == 0 && mine < items) " + sum.end, 2) +
             line("}", 1);
    case SumSplit::Pieces:
      break;
  }
  if (!sum.rows) {
    out +=
        line(fmt::format("const long in_run = column_terms({}), count = runs * in_run;", sum.n), 1);
    out += grid_stride("item", "outputs * ((count + 31) / 32)", 1) +
           line("const long output = item % outputs, batch = item / outputs;", 2) + output;
    out +=
        line(fmt::format("double total = {};\n"
                         "for (long at = batch * 32; at < batch * 32 + 32 && at < count; ++at) {{\n"
                         "  const long run = at / in_run;",
                         sum.product),
             2);
    out += run_text(nest, 3);
    out += line(fmt::format("join<{}>(total, column_of<{}>({}, at % in_run, value));", sum.product,
                            arguments, sum.n),
                3);
    return out + line("}", 2) + line(sum.end, 2) + line("}", 1);
  }
  out += line(fmt::format("const long in_run = row_terms({});", sum.n), 1);
  out += open_lanes("outputs * runs * in_run");
  out += line("const long output = item % outputs, at = item / outputs, run = at / in_run;", 2);
  out += output + run_text(nest, 2);
  out += line(
      fmt::format("double total = lane_of<{}>({}, at % in_run, lane, value);", arguments, sum.n),
      2);
  out += join_sum_lanes(sum, 2);
  return out + line("if (lane == 0 && mine < items) " + sum.end, 2) + line("}", 1);
}

}  // namespace lockstep::worker
