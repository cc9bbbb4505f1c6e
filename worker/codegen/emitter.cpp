#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/codegen/emit_cuda.h>
#include <lockstep/worker/codegen/emitter.h>
#include <lockstep/worker/codegen/scalar_text.h>
#include <lockstep/worker/graph/op_map.h>

namespace lockstep::worker {

using shapes::Expr;

Emission Emitter::emit(const PlannedStep& step) {
  const NodeId root = step.roots.front();
  // Those without are computed like elementwise ones.
  static constexpr OpMap<void (Emitter::*)(NodeId)> kIndexOps(
      of_class<OpClass::Index>, {{Op::IndexSelect, nullptr},
                                 {Op::IndexAdd, &Emitter::index_add},
                                 {Op::Argsort, &Emitter::argsort},
                                 {Op::Cumsum, &Emitter::cumulative_sum},
                                 {Op::SegmentIds, &Emitter::segment_ids},
                                 {Op::Nonzero, &Emitter::nonzero},
                                 {Op::Gather, nullptr},
                                 {Op::CheckedIndex, nullptr},
                                 {Op::IndexPut, &Emitter::index_put}});
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

std::string_view Emitter::c_type_of(NodeId id) const { return c_type(node(id).meta.dtype); }

std::vector<Expr> Emitter::total(NodeId id) const { return {shapes::product(node(id).meta.sizes)}; }

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

Total::Join Emitter::join_of(Op reduction) {
  using Join = Total::Join;
  static constexpr OpMap<Join> kJoins(of_class<OpClass::Reduction>, {{Op::Sum, Join::Sum},
                                                                     {Op::Amax, Join::Max},
                                                                     {Op::Amin, Join::Min},
                                                                     {Op::Argmax, Join::Max}});
  return kJoins[reduction];
}

void Emitter::accumulate(Op op, DType dtype, const std::string& value, int level) {
  const std::string type(c_type(dtype));
  const Total::Join join = join_of(op);
  if (join == Total::Join::Sum) {
    nest().total(level, {type, "total", "0", Total::Join::Sum});
    inner(fmt::format("total += ({}){};", type, value));
    if (nest().innermost() > level) nest().set_pragma("#pragma omp simd reduction(+ : total)");
    return;
  }
  const bool is_max = join == Total::Join::Max;
  nest().total(level, {type, "total", extreme_text(dtype, is_max), join});
  inner(fmt::format("total = {0} {1} total ? {0} : total;", value, is_max ? ">" : "<"));
  if (is_float(dtype)) {
    // A comparison passes over NaN, so it is looked for on its own.
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

void Emitter::cumulative_nest(NodeId id) {
  nest().before(-1, fmt::format("{} total = 0;", type(id)));
  const Access access = body_.open_loops(node(id).meta.sizes);
  const std::string value = body_.value(node(id).inputs[0], access);
  inner(fmt::format("total += ({}){};", type(id), value));
  inner(fmt::format("{} = total;", body_.element(id, access, true)));
}

/// Writes the positions that it was told of, however many are true.
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
