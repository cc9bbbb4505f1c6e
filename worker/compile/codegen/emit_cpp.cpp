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

namespace {

/// Iterations in a multiple of which a single loop, or columns, are split, so that the vectors and
/// what is left over for numbers one by one are those of the whole loop.
constexpr std::int64_t kFlatUnit = 256, kColumnUnit = 64;
/// Most columns that are summed side by side.
constexpr std::int64_t kColumns = 2048;
/// Batches kept per column: those that wait to be joined, and the current one. Enough for 2^50 runs
/// of one element.
constexpr std::int64_t kBatches = 48;
/// Elements of a row in a batch.
constexpr std::int64_t kRowBatch = kSumBlock * kSumTerms;

}  // namespace

void CppEmitter::add_kernel(const std::string& loops) {
  // Must precede finish_kernel(), which clears the body.
  const std::string text = body().text(loops);
  emission_.kernels.push_back(finish_kernel(text));
  emission_.kernels.back().parameters = "void* const* b, const long* n";
}

void CppEmitter::add_part(const std::string& loops, KernelText::Sharing sharing) {
  const std::size_t at = body().arguments().size();
  add_kernel(fmt::format("  const long first = n[{}], last = n[{}];\n", at, at + 1) + loops);
  emission_.kernels.back().sharing = std::move(sharing);
}

bool CppEmitter::worth_sharing(const Expr& elements) {
  const auto count = elements.constant();
  return !count || *count > kNeverSplit;
}

void CppEmitter::add_shared(std::size_t loops, const KernelText::Sharing& sharing) {
  if (loops == 0 || !worth_sharing(sharing.elements)) return add_kernel(nest().text());
  nest().split(loops, "first", "last");
  add_part(nest().text(), sharing);
}

// Threads share all loops but the innermost one, whose vectors do not change, or a single loop in
// multiples of the longest vector.
void CppEmitter::add_free(std::span<const Expr> sizes) {
  const std::vector<Expr> loops = long_sizes(sizes);
  const std::size_t shared = loops.size() == 1 ? 1 : loops.empty() ? 0 : loops.size() - 1;
  add_shared(shared, {shapes::product(std::span(loops).first(shared)), shapes::product(loops),
                      loops.size() == 1 ? kFlatUnit : 1});
}

void CppEmitter::elementwise(const PlannedStep& step) {
  elementwise_nest(step);
  add_free(step.flat ? total(step.roots.front()) : node(step.roots.front()).meta.sizes);
}

void CppEmitter::sum(NodeId id) {
  const Loops loops = sum_loops(id);
  if (loops.side_by_side) return sum_columns(id, loops);
  const bool all = loops.rows && loops.kept.empty() && loops.outer.empty() && loops.run.size() == 1;
  if (all && worth_sharing(loops.run.front())) return sum_all(id, loops);
  sum_rows(id, loops);
}

// One row: threads make batches, then one joins them.
void CppEmitter::sum_all(NodeId id, const Loops& loops) {
  const NodeId operand = node(id).inputs[0];
  const std::string type(this->type(operand)), product(product_text(id));
  const Expr& size = loops.run.front();
  const Expr batches = shapes::floor_div(size, Expr(kRowBatch)) + Expr(2);  // or one less
  const std::string n = body().number(size).text;
  emission_.scratch.push_back({DType::F64, batches});
  const std::string made = body().scratch(0, DType::F64);
  const IndexText batch = body().open_loops({&batches, 1}).index[0];
  nest().open_as(
      fmt::format("{}[{}] = row_batch<{}, {}>({}, {}, [&](long i) __attribute__((always_inline))",
                  made, batch.text, product, type, n, batch.text));
  const int element = nest().innermost();
  inner(fmt::format("return {};",
                    body().value(operand, loops.access({}, {}, {index_name("i", element)}))));
  nest().after(batch.level, ");");
  add_shared(1, {batches, size, 1});
  body().start_nest();
  add_kernel(fmt::format("  {} = ({})total_of_batches<{}>({}, {});\n",
                         body().element(id, Access{}, true), this->type(id), product,
                         body().scratch(0, DType::F64), body().number(size).text));
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
  const Expr rows = shapes::product(loops.kept);
  add_shared(loops.kept.size(), {rows, shapes::product(loops.sizes), 1});
}

void CppEmitter::sum_columns(NodeId id, const Loops& loops) {
  const NodeId operand = node(id).inputs[0];
  const std::string type(this->type(operand)), product(product_text(id)),
      n = body().number(shapes::product(loops.run)).text;
  // The last kept dim is contiguous.
  const Expr& columns = loops.kept.back();
  const std::string m = body().number(columns).text;
  emission_.scratch.push_back(
      {DType::F64, shapes::min(columns, Expr(kColumns)) * Expr(kBatches), true});
  const std::string batches = body().scratch(0, DType::F64);
  const std::span<const Expr> around_columns = std::span(loops.kept).first(loops.kept.size() - 1);
  Access kept{loops.kept, body().open_loops(around_columns).index};
  const Expr elements = shapes::product(loops.sizes);
  const bool by_columns = around_columns.empty() && worth_sharing(elements);
  const std::string from = by_columns ? "first" : "0", to = by_columns ? "last" : m;
  nest().open_as(fmt::format("for (long start = {}; start < {}; start += {})", from, to, kColumns));
  const int chunk = nest().innermost();
  inner(
      fmt::format("const long wide = {0} - start < {1} ? {0} - start : {1};\nColumns columns;\n"
                  "start_columns<{2}>(columns, {3}, wide);",
                  to, kColumns, product, batches));
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
  if (by_columns) return add_part(nest().text(), {columns, elements, kColumnUnit});
  add_shared(around_columns.size(), {shapes::product(around_columns), elements, 1});
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
  add_shared(nest().free(), {shapes::product(node(id).meta.sizes), shapes::product(sizes), 1});
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
  const bool shared = worth_sharing(total(id).front());
  std::string out;
  Expr start;
  for (NodeId operand : node(id).inputs) {
    part_nest(id, operand, start);
    if (shared)
      add_free(node(operand).meta.sizes);
    else
      out += scoped(nest().text());
    start = start + node(operand).meta.sizes[static_cast<std::size_t>(node(id).ints[0])];
  }
  if (!shared) add_kernel(out);
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
  emission_.scratch.push_back(
      {DType::F64, shapes::min(width, Expr(kColumns)) * Expr(kBatches), true});
  std::string head = body().scratch(0, DType::I64), next = body().scratch(1, DType::I64);
  const IndexText first = body().open_loops({&count, 1}).index[0];
  inner(fmt::format("{}[{}] = -1;", head, first.text));
  std::string text = scoped(nest().text());
  body().start_nest();
  nest().open_as(fmt::format("for (long r = {} - 1; r >= 0; --r)", body().number(length).text));
  const std::string to =
      body().value(index, {node(index).meta.sizes, {index_name("r", nest().innermost())}});
  inner(fmt::format("{0}[r] = {1}[{2}];\n{1}[{2}] = r;", next, head, to));
  add_kernel(text + scoped(nest().text()));
  head = body().scratch(0, DType::I64), next = body().scratch(1, DType::I64);
  const std::string batches = body().scratch(2, DType::F64), w = body().number(width).text;
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
  const Expr elements = count * shapes::product(inside);
  add_shared(access.index[0].constant ? 0 : 1, {count, elements, 1});
}

void CppEmitter::index_put(NodeId id) {
  const NodeId x = node(id).inputs[0], index = node(id).inputs[1], rows = node(id).inputs[2];
  body().start_nest();
  Access access = body().open_loops(flat(x) ? total(x) : node(x).meta.sizes);
  const std::string before = body().value(x, access);
  inner(fmt::format("{} = {};", body().element(id, access, true), before));
  nest().set_pragma(kSimd);
  add_free(flat(x) ? total(x) : node(x).meta.sizes);
  access = body().open_loops(node(rows).meta.sizes);
  const std::string value = body().value(rows, access);
  const std::string row = body().value(index, {node(index).meta.sizes, {access.index[0]}});
  // Two rows may have the same index, so only the loops inside a row may run in any order.
  if (nest().innermost() > access.index[0].level) nest().set_pragma(kSimd);
  access.sizes = node(id).meta.sizes;
  access.index[0] = index_name(row, access.index[0].level);
  inner(put_text(id, body().element(id, access, true), value));
  add_kernel(nest().text());
}

void CppEmitter::scan(NodeId id) {
  scan_nest(id);
  add_shared(nest().free(), {shapes::product(leading(id)), total(id).front(), 1});
}

void CppEmitter::search_sorted(NodeId id) {
  search_nest(id);
  add_free(node(id).meta.sizes);
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
  emission_.scratch.push_back({DType::I64, size, true});
  const std::string scratch = body().scratch(0, DType::I64), n = body().number(size).text;
  const Expr rows = shapes::product(leading(id));
  if (rows.constant() == std::optional<std::int64_t>(1))
    return add_kernel(fmt::format("  argsort({}, {}, {}, {});\n", x, out, scratch, n));
  const bool shared = worth_sharing(total(id).front());
  const std::string text = fmt::format(
      "  for (long row = {4}; row < {5}; ++row)\n"
      "    argsort({0} + row * {3}, {1} + row * {3}, {2}, {3});\n",
      x, out, scratch, n, shared ? "first" : "0", shared ? "last" : body().number(rows).text);
  shared ? add_part(text, {rows, total(id).front(), 1}) : add_kernel(text);
}

}  // namespace lockstep::worker
