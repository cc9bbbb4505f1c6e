#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/emitter.h>
#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/compile/sums/join_order.h>
#include <lockstep/worker/compile/sums/sum_order.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

using shapes::Expr;

void CppEmitter::add_kernel(const std::string& loops) {
  // Must precede finish_kernel(), which clears the body.
  const std::string text = body().text(loops);
  emission_.kernels.push_back(finish_kernel(text));
  emission_.kernels.back().parameters = "void* const* b, const long* n";
}

void CppEmitter::elementwise(const PlannedStep& step) {
  elementwise_nest(step);
  add_kernel(nest().text());
}

namespace {

/// Most columns that are summed side by side.
constexpr std::int64_t kColumns = 2048;
/// Batches kept per column: those that wait to be joined, and the current one. Enough for 2^50 runs
/// of one element.
constexpr std::int64_t kBatches = 48;

}  // namespace

void CppEmitter::sum(NodeId id) {
  const Loops loops = sum_loops(id);
  loops.side_by_side ? sum_columns(id, loops) : sum_rows(id, loops);
}

void CppEmitter::sum_rows(NodeId id, const Loops& loops) {
  const NodeId operand = node(id).inputs[0];
  const std::string type(this->type(operand)), product(product_text(id));
  Access kept{loops.kept, body().open_loops(loops.kept).index};
  const int level = nest().innermost();
  nest().before(level, fmt::format("Terms terms;\nstart_terms<{}>(terms);", product));
  const Access outer = body().open_loops(loops.outer);
  const int around = nest().innermost();
  const auto add_row = [&](const std::string& n) {
    return fmt::format("add_{}<{}, {}>(terms, {}, [&](long i) __attribute__((always_inline))",
                       loops.rows ? "row" : "column", product, type, n);
  };
  const std::string width = body().number(loops.run.back()).text;
  if (loops.run.size() == 1 || !loops.rows) {
    nest().open_as(add_row(body().number(shapes::product(loops.run)).text));
    const Access access = loops.access(kept.index, outer.index,
                                       split_index(loops.run, index_name("i", nest().innermost())));
    inner(fmt::format("return {};", body().value(operand, access)));
    nest().after(around, ");");
  } else {  // the run is collected in an array, so that its elements have one index
    inner(fmt::format("{} row[{}];\nlong fill = 0;", type, kSumBlock));
    Access within = body().open_loops(std::span(loops.run).first(loops.run.size() - 1));
    nest().open_as(fmt::format("for (long at = 0; at < {};)", width));
    const int pieces = nest().innermost();
    inner(
        fmt::format("const long left = {} - at, room = {} - fill, few = left < room ? left : room;",
                    width, kSumBlock));
    nest().open_as("#pragma omp simd\nfor (long l = 0; l < few; ++l)");
    within.index.push_back(index_name("(at + l)", nest().innermost()));
    inner(fmt::format("row[fill + l] = {};",
                      body().value(operand, loops.access(kept.index, outer.index, within.index))));
    const std::string row = add_row("fill") + " { return row[i]; });";
    nest().after(pieces,
                 fmt::format("at += few;\nfill += few;\nif (fill == {}) {{\n  {}\n  fill = 0;\n}}",
                             kSumBlock, row));
    nest().after(around, row);
  }
  nest().after(level, fmt::format("{} = ({})total_of<{}>(terms);", body().element(id, kept, true),
                                  this->type(id), product));
  add_kernel(nest().text());
}

void CppEmitter::sum_columns(NodeId id, const Loops& loops) {
  const NodeId operand = node(id).inputs[0];
  const std::string type(this->type(operand)), product(product_text(id)),
      n = body().number(shapes::product(loops.run)).text;
  // The last kept dim is contiguous.
  const Expr& columns = loops.kept.back();
  const std::string m = body().number(columns).text;
  emission_.scratch.push_back({DType::F64, shapes::min(columns, Expr(kColumns)) * Expr(kBatches)});
  const std::string batches = body().scratch(0, DType::F64);
  Access kept{loops.kept,
              body().open_loops(std::span(loops.kept).first(loops.kept.size() - 1)).index};
  nest().open_as(fmt::format("for (long start = 0; start < {}; start += {})", m, kColumns));
  const int chunk = nest().innermost();
  inner(
      fmt::format("const long wide = {0} - start < {1} ? {0} - start : {1};\nColumns columns;\n"
                  "start_columns<{2}>(columns, {3}, wide);",
                  m, kColumns, product, batches));
  const Access outer = body().open_loops(loops.outer);
  const int around = nest().innermost();
  nest().open_as(
      fmt::format("add_columns<{}, {}>(columns, {}, [&](long k, long j) "
                  "__attribute__((always_inline))",
                  product, type, n));
  kept.index.push_back(index_name("(start + j)", nest().innermost()));
  const Access access = loops.access(kept.index, outer.index,
                                     split_index(loops.run, index_name("k", nest().innermost())));
  inner(fmt::format("return {};", body().value(operand, access)));
  nest().after(around, ");");
  nest().after(
      chunk, fmt::format("total_columns<{}>(columns);\n{}\n"
                         "for (long j = 0; j < wide; ++j) {} = ({}){}[j];",
                         product, kSimd, body().element(id, kept, true), this->type(id), batches));
  add_kernel(nest().text());
}

// A reduction over the last dim keeps its total in a register. Any other reduction adds into
// memory, in the order of the operand's elements, so that the inner loop is contiguous.
void CppEmitter::reduction(NodeId id) {
  if (has_sum_order(node(id))) return sum(id);
  const auto& sizes = node(node(id).inputs[0]).meta.sizes;
  std::size_t last = sizes.size();
  while (last > 0 && sizes[last - 1].constant() == std::optional<std::int64_t>(1)) --last;
  const auto is_last = static_cast<std::int64_t>(last) - 1;
  if (node(id).op != Op::Argmax && last > 0 && std::ranges::count(node(id).ints, is_last) == 0)
    return add_kernel(memory_reduction(id));
  const Reduced made = reduction_nest(id);
  nest().after(made.level, fmt::format("{} = total;", body().element(id, made.kept, true)));
  add_kernel(nest().text());
}

std::string CppEmitter::memory_reduction(NodeId id) {
  const NodeId operand = node(id).inputs[0];
  const auto& sizes = node(operand).meta.sizes;
  const Total::Join join = join_of(node(id).op);
  const bool is_sum = join == Total::Join::Sum, is_product = join == Total::Join::Product,
             is_max = join == Total::Join::Max;
  const std::string first = is_sum       ? "0"
                            : is_product ? "1"
                                         : extreme_text(node(id).meta.dtype, is_max);
  std::string out = fill(id, first);
  body().start_nest();
  const Access access = body().open_loops(sizes);
  Access kept;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (std::ranges::count(node(id).ints, static_cast<std::int64_t>(d)) > 0) continue;
    kept.sizes.push_back(sizes[d]);
    kept.index.push_back(access.index[d]);
  }
  const std::string value = body().value(operand, access);
  const std::string into = body().element(id, kept, true);
  inner(is_sum || is_product
            ? fmt::format("{} {}= ({}){};", into, is_sum ? '+' : '*', type(id), value)
            : fmt::format("{0} = ({0} == {0}) & (({1} {2} {0}) | ({1} != {1})) ? {1} : {0};", into,
                          value, is_max ? ">" : "<"));
  nest().set_pragma(kSimd);
  return out + nest().text();
}

std::string CppEmitter::fill(NodeId id, const std::string& value) {
  body().start_nest();
  const Access access = body().open_loops(total(id));
  inner(fmt::format("{} = {};", body().element(id, access, true), value));
  nest().set_pragma(kSimd);
  return scoped(nest().text());
}

void CppEmitter::concatenation(NodeId id) {
  std::string out;
  Expr start;
  for (NodeId operand : node(id).inputs) {
    part_nest(id, operand, start);
    out += scoped(nest().text());
    start = start + node(operand).meta.sizes[static_cast<std::size_t>(node(id).ints[0])];
  }
  add_kernel(out);
}

void CppEmitter::index_add(NodeId id) {
  if (has_join_order(node(id)))
    return joins_numbers(node(id)) ? join_numbers(id) : join_by_lists(id);
  const NodeId index = node(id).inputs[0], rows = node(id).inputs[1];
  const std::string out = fill(id, "0");
  body().start_nest();
  Access access = body().open_loops(node(rows).meta.sizes);
  const std::string value = body().value(rows, access);
  const std::string row = body().value(index, {node(index).meta.sizes, {access.index[0]}});
  // Two rows may have the same index, so only the loops inside a row may run in any order.
  if (nest().innermost() > access.index[0].level) nest().set_pragma(kSimd);
  access.sizes = node(id).meta.sizes;
  access.index[0] = index_name(row, access.index[0].level);
  inner(fmt::format("{} += {};", body().element(id, access, true), value));
  add_kernel(out + nest().text());
}

// Scratch holds a sum for each element of the result; numbers are added in their order.
void CppEmitter::join_numbers(NodeId id) {
  const NodeId index = node(id).inputs[0], numbers = node(id).inputs[1];
  const NumberSum sum = number_sum(id);
  for (std::size_t k = 0; k < sum.parts(); ++k)
    emission_.scratch.push_back({DType::F64, total(id).front()});
  const auto part = [&](std::size_t which, const std::string& at) {
    return which < sum.parts() ? fmt::format("{}[{}]", body().scratch(which, DType::F64), at) : "";
  };
  IndexText at = body().open_loops(total(id)).index[0];
  for (std::size_t k = 0; k < sum.parts(); ++k) inner(part(k, at.text) + " = 0;");
  nest().set_pragma(kSimd);
  std::string text = scoped(nest().text());
  body().start_nest();
  const Access access = body().open_loops(node(numbers).meta.sizes);
  const std::string value = body().value(numbers, access);
  const std::string to = body().value(index, {node(index).meta.sizes, access.index});
  inner(sum.add(part(0, to), part(1, to), value));
  text += scoped(nest().text());
  body().start_nest();
  at = body().open_loops(total(id)).index[0];
  inner(fmt::format("{} = {};", body().element(id, {total(id), {at}}, true),
                    sum.value(part(0, at.text), part(1, at.text))));
  nest().set_pragma(kSimd);
  add_kernel(text + scoped(nest().text()));
}

// Makes a list of rows for each index, then joins the rows of one index after another, so each row
// of the result is written once.
void CppEmitter::join_by_lists(NodeId id) {
  const NodeId index = node(id).inputs[0], rows = node(id).inputs[1];
  const std::string type(this->type(id));
  const Expr &count = node(id).meta.sizes[0], &length = node(rows).meta.sizes[0];
  // Dims of rows that are contiguous are merged into one.
  std::vector<Expr> inside(node(id).meta.sizes.begin() + 1, node(id).meta.sizes.end());
  if (flat(rows)) inside = {shapes::product(inside)};
  const Expr& width = inside.back();
  emission_.scratch.push_back({DType::I64, count});
  emission_.scratch.push_back({DType::I64, length});
  emission_.scratch.push_back({DType::F64, shapes::min(width, Expr(kColumns)) * Expr(kBatches)});
  const std::string head = body().scratch(0, DType::I64), next = body().scratch(1, DType::I64),
                    batches = body().scratch(2, DType::F64), w = body().number(width).text;
  const IndexText first = body().open_loops({&count, 1}).index[0];
  inner(fmt::format("{}[{}] = -1;", head, first.text));
  std::string text = scoped(nest().text());
  body().start_nest();
  nest().open_as(fmt::format("for (long r = {} - 1; r >= 0; --r)", body().number(length).text));
  const std::string to =
      body().value(index, {node(index).meta.sizes, {index_name("r", nest().innermost())}});
  inner(fmt::format("{0}[r] = {1}[{2}];\n{1}[{2}] = r;", next, head, to));
  text += scoped(nest().text());
  body().start_nest();
  Access access = body().open_loops({&count, 1});
  const std::string mine = access.index[0].text;
  const Access outer = body().open_loops(std::span(inside).first(inside.size() - 1));
  access.index.insert(access.index.end(), outer.index.begin(), outer.index.end());
  nest().open_as(fmt::format("for (long start = 0; start < {}; start += {})", w, kColumns));
  const int chunk = nest().innermost();
  inner(fmt::format("const long wide = {0} - start < {1} ? {0} - start : {1};", w, kColumns));
  nest().open_as("const auto value = [&](long row, long j) __attribute__((always_inline))");
  const int level = nest().innermost();
  access.index.push_back(index_name("(start + j)", level));
  Access of{{length}, access.index};
  of.sizes.insert(of.sizes.end(), inside.begin(), inside.end());
  of.index[0] = index_name("row", level);
  inner(fmt::format("return {};", body().value(rows, of)));
  access.sizes = of.sizes;
  access.sizes[0] = count;
  // An element made of no row, or of a single row, needs no scratch memory.
  constexpr const char* kText = R"(;
const long only = {head}[{mine}];
if (only < 0) {{
  {simd}
  for (long j = 0; j < wide; ++j) {out} = 0;
}} else if ({next}[only] < 0) {{
  {simd}
  for (long j = 0; j < wide; ++j) {out} = value(only, j) + ({type})0;
}} else {{
  Columns columns;
  start_columns<false>(columns, {batches}, wide);
  for (long row = only; row >= 0;) {{
    long at[{few}], few = 0;
    for (; few < {few} && row >= 0; row = {next}[row]) at[few++] = row;
    add_columns<false, {type}>(columns, few, [&](long k, long j) __attribute__((always_inline)) {{ return value(at[k], j); }});
  }}
  total_columns<false>(columns);
  {simd}
  for (long j = 0; j < wide; ++j) {out} = ({type}){batches}[j];
}})";
  nest().after(
      chunk,
      fmt::format(kText, fmt::arg("head", head), fmt::arg("mine", mine), fmt::arg("next", next),
                  fmt::arg("simd", kSimd), fmt::arg("out", body().element(id, access, true)),
                  fmt::arg("type", type), fmt::arg("batches", batches), fmt::arg("few", kSumFew)));
  add_kernel(text + scoped(nest().text()));
}

void CppEmitter::index_put(NodeId id) {
  const NodeId x = node(id).inputs[0], index = node(id).inputs[1], rows = node(id).inputs[2];
  body().start_nest();
  Access access = body().open_loops(flat(x) ? total(x) : node(x).meta.sizes);
  const std::string before = body().value(x, access);
  inner(fmt::format("{} = {};", body().element(id, access, true), before));
  nest().set_pragma(kSimd);
  const std::string copied = scoped(nest().text());
  body().start_nest();
  access = body().open_loops(node(rows).meta.sizes);
  const std::string value = body().value(rows, access);
  const std::string row = body().value(index, {node(index).meta.sizes, {access.index[0]}});
  // Two rows may have the same index, so only the loops inside a row may run in any order.
  if (nest().innermost() > access.index[0].level) nest().set_pragma(kSimd);
  access.sizes = node(id).meta.sizes;
  access.index[0] = index_name(row, access.index[0].level);
  inner(put_text(id, body().element(id, access, true), value));
  add_kernel(copied + nest().text());
}

void CppEmitter::scan(NodeId id) {
  scan_nest(id);
  add_kernel(nest().text());
}

void CppEmitter::search_sorted(NodeId id) {
  search_nest(id);
  add_kernel(nest().text());
}

void CppEmitter::segment_ids(NodeId id) {
  const NodeId counts = node(id).inputs[0];
  nest().before(-1, "long at = 0;");
  const Access access = body().open_loops(node(counts).meta.sizes);
  const IndexText segment = access.index[0];
  inner(fmt::format("for (long end = at + {}; at < end; ++at) {}[at] = {};",
                    body().value(counts, access), body().buffer(id, true), segment.text));
  add_kernel(nest().text());
}

void CppEmitter::nonzero(NodeId id) {
  nonzero_nest(id);
  add_kernel(nest().text());
}

void CppEmitter::own(NodeId id) {
  add_kernel(own_body(id, "thread = 0, threads = 1", node(id).own->host_text));
}

void CppEmitter::argsort(NodeId id) {
  const std::string x = body().buffer(node(id).inputs[0]), out = body().buffer(id, true);
  const Expr& size = node(id).meta.sizes.back();
  emission_.scratch.push_back({DType::I64, size});
  const std::string scratch = body().scratch(0, DType::I64), n = body().number(size).text;
  const IndexText rows = body().number(shapes::product(leading(id)));
  add_kernel(rows.constant == 1
                 ? fmt::format("  argsort({}, {}, {}, {});\n", x, out, scratch, n)
                 : fmt::format("  for (long row = 0; row < {4}; ++row)\n"
                               "    argsort({0} + row * {3}, {1} + row * {3}, {2}, {3});\n",
                               x, out, scratch, n, rows.text));
}

}  // namespace lockstep::worker
