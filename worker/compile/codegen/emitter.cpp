#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/emit_cuda.h>
#include <lockstep/worker/compile/codegen/emitter.h>
#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/compile/sums/scan_order.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {

using shapes::Expr;

Emission Emitter::emit(const PlannedStep& step) {
  const NodeId root = step.roots.front();
  // Ops with nullptr are computed like elementwise ones.
  static constexpr OpMap<void (Emitter::*)(NodeId)> kIndexOps(
      of_class<OpClass::Index>, {{Op::IndexSelect, nullptr},
                                 {Op::IndexAdd, &Emitter::index_add},
                                 {Op::Argsort, &Emitter::argsort},
                                 {Op::Cumsum, &Emitter::scan},
                                 {Op::SegmentIds, &Emitter::segment_ids},
                                 {Op::Nonzero, &Emitter::nonzero},
                                 {Op::Gather, nullptr},
                                 {Op::CheckedIndex, nullptr},
                                 {Op::IndexPut, &Emitter::index_put},
                                 {Op::Cumprod, &Emitter::scan},
                                 {Op::CumArgmax, &Emitter::scan},
                                 {Op::LogCumsumExp, &Emitter::scan},
                                 {Op::SearchSorted, &Emitter::search_sorted}});
  const Op op = node(root).op;
  if (const auto index_op = kIndexOps[op])
    (this->*index_op)(root);
  else if (op_row(op).kind == OpClass::Reduction)
    reduction(root);
  else if (op == Op::Cat)
    concatenation(root);
  else
    elementwise(step);
  return std::move(emission_);
}

Emission Emitter::emit_own(NodeId id) {
  own(id);
  return std::move(emission_);
}

std::string Emitter::own_body(NodeId id, std::string_view threads, std::string_view text) {
  std::string out, sizes;
  const auto add_sizes = [&](NodeId of) {
    for (const Expr& size : node(of).meta.sizes) sizes += body_.number(size).text + ", ";
  };
  for (std::size_t k = 0; k < node(id).inputs.size(); ++k) {
    const NodeId input = node(id).inputs[k];
    out += fmt::format("  typedef {1} T{0}; const T{0}* const in{0} = {2};\n", k, type(input),
                       body_.buffer(input));
    add_sizes(input);
  }
  add_sizes(id);
  out += fmt::format("  typedef {} T; T* const out = {};\n", type(id), body_.buffer(id, true));
  out += fmt::format("  const long sizes[] = {{{}0}}, count = {}, {};\n", sizes,
                     body_.number(total(id).front()).text, threads);
  // With #line, compiler errors name the op and the line of its text; "<stdin>:" tells the
  // toolchain that the text is wrong.
  return out + fmt::format("  {{\n#line 1 \"<stdin>:{}\"\n{}\n  }}\n", node(id).text, text);
}

Emission emit_own(const Graph& graph, const Plan& plan, NodeId id, Target target) {
  return target == Target::Host ? CppEmitter(graph, plan).emit_own(id)
                                : CudaEmitter(graph, plan).emit_own(id);
}

std::string_view Emitter::c_type_of(NodeId id) const { return c_type(node(id).meta.dtype); }

std::vector<Expr> Emitter::total(NodeId id) const { return {shapes::product(node(id).meta.sizes)}; }

std::span<const Expr> Emitter::leading(NodeId id) const {
  const std::span<const Expr> sizes(node(id).meta.sizes);
  return sizes.first(sizes.size() - 1);
}

KernelText Emitter::finish_kernel(const std::string& loops) {
  KernelText out{body_.parameters(), loops,  body_.buffers(), body_.scratches(),
                 body_.arguments(),  Expr(), std::nullopt};
  body_.start_kernel();
  return out;
}

void Emitter::elementwise_nest(const PlannedStep& step) {
  const NodeId first = step.roots.front();
  const Access access = body_.open_loops(step.flat ? total(first) : node(first).meta.sizes);
  nest().set_free();
  nest().set_pragma(kSimd);
  for (NodeId root : step.roots) {
    const std::string value = body_.root_value(root, access);
    inner(fmt::format("{} = {};", body_.element(root, access, true), value));
  }
}

Emitter::Reduced Emitter::reduction_nest(NodeId id) {
  const NodeId operand = node(id).inputs[0];
  const auto& sizes = node(operand).meta.sizes;
  const auto reduced = [&](std::size_t d) {
    return std::ranges::count(node(id).ints, static_cast<std::int64_t>(d)) > 0;
  };
  const bool is_argmax = node(id).op == Op::Argmax;
  const bool one_loop = node(id).meta.sizes.empty() && !is_argmax && flat(operand);
  std::vector<Expr> kept, gone;
  for (std::size_t d = 0; d < sizes.size(); ++d) (reduced(d) ? gone : kept).push_back(sizes[d]);
  const Access outer = body_.open_loops(kept);
  nest().set_free();
  const int level = nest().innermost();
  const Access within = body_.open_loops(one_loop ? total(operand) : gone);
  Access access = within;
  if (!one_loop) {
    access = {sizes, {}};
    std::size_t k = 0, g = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      access.index.push_back(reduced(d) ? within.index[g++] : outer.index[k++]);
  }
  if (is_argmax)
    arg_max(id, access, level);
  else
    accumulate(node(id).op, node(id).meta.dtype, body_.value(operand, access), level);
  return {level, {kept, outer.index}};
}

Emitter::Loops Emitter::sum_loops(NodeId id) const {
  const NodeId operand = node(id).inputs[0];
  const auto& sizes = node(operand).meta.sizes;
  const SumRun run = sum_run(sizes.size(), node(id).ints);
  Loops out;
  out.rows = run.rows;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool reduced = std::ranges::count(node(id).ints, static_cast<std::int64_t>(d)) > 0;
    const char is = !reduced ? 'k' : d < run.first || d >= run.last ? 'o' : 'r';
    if (sizes[d].constant() == std::optional<std::int64_t>(1)) continue;
    out.side_by_side = out.side_by_side || d >= run.last;
    auto& of = is == 'k' ? out.kept : is == 'o' ? out.outer : out.run;
    if (flat(operand) && !out.is.empty() && out.is.back() == is) {
      of.back() = of.back() * sizes[d];
      out.sizes.back() = of.back();
      continue;
    }
    of.push_back(sizes[d]);
    out.sizes.push_back(sizes[d]);
    out.is.push_back(is);
  }
  if (out.run.empty()) out.run.push_back(Expr(1));
  return out;
}

Access Emitter::Loops::access(const std::vector<IndexText>& of_kept,
                              const std::vector<IndexText>& of_outer,
                              const std::vector<IndexText>& of_run) const {
  Access out{sizes, {}};
  std::size_t k = 0, o = 0, r = 0;
  for (const char which : is)
    out.index.push_back(which == 'k' ? of_kept[k++] : which == 'o' ? of_outer[o++] : of_run[r++]);
  return out;
}

std::vector<IndexText> Emitter::split_index(std::span<const Expr> sizes, const IndexText& place) {
  std::vector<IndexText> out(sizes.size());
  IndexText rest = place;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    out[d] = d == 0 ? rest : rest % body_.number(sizes[d]);
    rest = rest / body_.number(sizes[d]);
  }
  return out;
}

std::string_view Emitter::product_text(NodeId id) const {
  return node(id).op == Op::Prod ? "true" : "false";
}

Total::Join Emitter::join_of(Op reduction) {
  using Join = Total::Join;
  static constexpr OpMap<Join> kJoins(of_class<OpClass::Reduction>, {{Op::Sum, Join::Sum},
                                                                     {Op::Amax, Join::Max},
                                                                     {Op::Amin, Join::Min},
                                                                     {Op::Argmax, Join::Max},
                                                                     {Op::Prod, Join::Product}});
  return kJoins[reduction];
}

void Emitter::accumulate(Op op, DType dtype, const std::string& value, int level) {
  const std::string type(c_type(dtype));
  const Total::Join join = join_of(op);
  if (join == Total::Join::Sum || join == Total::Join::Product) {
    const bool is_sum = join == Total::Join::Sum;
    const char op_text = is_sum ? '+' : '*';
    nest().total(level, {type, "total", is_sum ? "0" : "1", join});
    inner(fmt::format("total {}= ({}){};", op_text, type, value));
    if (nest().innermost() > level)
      nest().set_pragma(fmt::format("#pragma omp simd reduction({} : total)", op_text));
    return;
  }
  const bool is_max = join == Total::Join::Max;
  nest().total(level, {type, "total", extreme_text(dtype, is_max), join});
  inner(fmt::format("total = {0} {1} total ? {0} : total;", value, is_max ? ">" : "<"));
  if (is_float(dtype)) {
    // Comparisons ignore NaN, so it is tracked separately.
    nest().total(level, {"int", "nan", "0", Total::Join::Or});
    inner(fmt::format("nan |= {0} != {0};", value));
    nest().after(level,
                 fmt::format("if (nan) total = {};", literal_text(dtype, __builtin_nan(""))));
  }
  if (nest().innermost() > level && dtype != DType::Bool)
    nest().set_pragma(fmt::format("#pragma omp simd reduction({} : total){}",
                                  is_max ? "max" : "min",
                                  is_float(dtype) ? " reduction(| : nan)" : ""));
}

std::string Emitter::put_text(NodeId index_put, const std::string& into,
                              const std::string& value) const {
  switch (static_cast<Put>(node(index_put).ints[0])) {
    case Put::Set:
      return fmt::format("{} = {};", into, value);
    case Put::Multiply:
      return fmt::format("{0} = ({2})({0} * {1});", into, value, type(index_put));
    case Put::Max:
    case Put::Min:
      break;
  }
  const bool is_max = static_cast<Put>(node(index_put).ints[0]) == Put::Max;
  return fmt::format("{0} = ({0} == {0}) & (({1} {2} {0}) | ({1} != {1})) ? {1} : {0};", into,
                     value, is_max ? ">" : "<");
}

void Emitter::arg_max(NodeId id, const Access& access, int level) {
  const NodeId operand = node(id).inputs[0];
  const IndexText at = access.index[static_cast<std::size_t>(node(id).ints[0])];
  nest().before(level, "long total = 0;");
  nest().before(level, fmt::format("{} best = 0;", type(operand)));
  const std::string value = body_.value(operand, access);
  inner(
      fmt::format("if ({0} == 0 || (best == best && ({1} > best || {1} "
                  "!= {1}))) {{ best = {1}; total = {0}; }}",
                  at.text, value));
}

void Emitter::part_nest(NodeId id, NodeId operand, const Expr& start) {
  const auto dim = static_cast<std::size_t>(node(id).ints[0]);
  body_.start_nest();
  Access access = body_.open_loops(node(operand).meta.sizes);
  nest().set_free();
  const std::string value = body_.value(operand, access);
  access.index[dim] = access.index[dim] + body_.number(start);
  access.sizes = node(id).meta.sizes;
  inner(fmt::format("{} = {};", body_.element(id, access, true), value));
  nest().set_pragma(kSimd);
}

std::string Emitter::scan_state(NodeId id) const {
  const DType dtype = node(node(id).inputs[0]).meta.dtype;
  const auto of = [](std::string_view state, std::string_view type) {
    return fmt::format("{}<{}>", state, type);
  };
  if (node(id).op == Op::CumArgmax) return of("ScanLargest", c_type(dtype));
  if (node(id).op == Op::LogCumsumExp) return of("ScanLogSum", c_type(dtype));
  return of(node(id).op == Op::Cumprod ? "ScanProduct" : "ScanSum",
            c_type(has_scan_order(node(id)) ? DType::F64 : dtype));
}

void Emitter::add_to_scan(NodeId id, std::string_view into, Access access, const IndexText& at) {
  access.index.push_back(at);
  access.sizes = node(id).meta.sizes;
  inner(fmt::format("{}.add({}, {});", into, body_.value(node(id).inputs[0], access), at.text));
}

void Emitter::put_scan(NodeId id, std::string_view state, Access access, const IndexText& at) {
  access.index.push_back(at);
  access.sizes = node(id).meta.sizes;
  inner(fmt::format("{} = ({}){}.value();", body_.element(id, access, true), type(id), state));
}

void Emitter::scan_nest(NodeId id) {
  const std::string state = scan_state(id);
  const Access row = body_.open_loops(leading(id));
  nest().set_free();
  const int level = nest().innermost();
  const Expr& size = node(id).meta.sizes.back();
  if (!has_scan_order(node(id))) {
    nest().before(level, fmt::format("{0} all = {0}::first();", state));
    const IndexText at = body_.open_loops({&size, 1}).index[0];
    add_to_scan(id, "all", row, at);
    return put_scan(id, "all", row, at);
  }
  nest().before(level, fmt::format("ScanPrefix<{}> prefix;\nprefix.start();", state));
  const std::string n = body_.number(size).text;
  nest().open_as(fmt::format("for (long g = 0; g < {}; g += {})", n, kScanGroup));
  const int group = nest().innermost();
  inner(
      fmt::format("auto within = {0}::Within::behind(prefix.now());\n"
                  "const long end = {1} - g < {2} ? {1} : g + {2};",
                  state, n, kScanGroup));
  nest().open_as("for (long j = g; j < end; ++j)");
  const IndexText at = index_name("j", nest().innermost());
  add_to_scan(id, "within", row, at);
  put_scan(id, "within", row, at);
  nest().after(group, "prefix.add(within.group);");
}

Emitter::NumberSum Emitter::number_sum(NodeId id) const {
  return {node(id).meta.dtype == DType::F64, type(id)};
}

std::string Emitter::NumberSum::add(std::string_view total, std::string_view lost,
                                    std::string_view value) const {
  return is_exact ? fmt::format("add_compensated({}, {}, {});", total, lost, value)
                  : fmt::format("{} += (double){};", total, value);
}

std::string Emitter::NumberSum::value(std::string_view total, std::string_view lost) const {
  return is_exact ? fmt::format("compensated_total({}, {})", total, lost)
                  : fmt::format("({}){}", type, total);
}

void Emitter::search_nest(NodeId id) {
  const NodeId sorted = node(id).inputs[0], values = node(id).inputs[1];
  const Access access = body_.open_loops(node(id).meta.sizes);
  nest().set_free();
  const std::string value = body_.value(values, access);
  Access row{node(sorted).meta.sizes, access.index};
  row.index.back() = index_constant(0);
  inner(fmt::format("{} = place_of({} + {}, {}, {}, {});", body_.element(id, access, true),
                    body_.buffer(sorted), body_.offset(row).text,
                    body_.number(node(sorted).meta.sizes.back()).text, value,
                    node(id).ints[0] == 1 ? "true" : "false"));
}

/// Writes as many positions as the result holds, however many elements are true.
void Emitter::nonzero_nest(NodeId id) {
  const NodeId mask = node(id).inputs[0];
  nest().before(-1, "long at = 0;");
  const Access access = body_.open_loops(flat(mask) ? total(mask) : node(mask).meta.sizes);
  const std::string value = body_.value(mask, access), out = body_.buffer(id, true),
                    count = body_.number(node(id).meta.sizes[0]).text;
  inner(fmt::format("if ({} && at < {}) {}[at++] = {};", value, count, out,
                    body_.offset(access).text));
  nest().after(-1, fmt::format("for (; at < {}; ++at) {}[at] = 0;", count, out));
}

Emission emit(const Graph& graph, const Plan& plan, const PlannedStep& step, Target target) {
  return target == Target::Host ? CppEmitter(graph, plan).emit(step)
                                : CudaEmitter(graph, plan).emit(step);
}

}  // namespace lockstep::worker
