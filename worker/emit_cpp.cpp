#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/emit_cpp.h>
#include <lockstep/worker/kernel_body.h>
#include <lockstep/worker/op.h>
#include <lockstep/worker/scalar_text.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

class Emitter {
 public:
  Emitter(const Graph& graph, const Plan& plan) : graph_(graph), body_(graph, plan), plan_(plan) {}

  std::string emit(const PlannedStep& step) {
    const NodeId root = step.roots.front();
    switch (graph_.nodes[root].op) {
      case Op::Sum:
      case Op::Amax:
      case Op::Amin:
      case Op::Argmax:
        return reduction(root);
      case Op::Cat:
        return concatenation(root);
      case Op::IndexAdd:
        return index_add(root);
      case Op::Cumsum:
        return cumulative_sum(root);
      case Op::SegmentIds:
        return segment_ids(root);
      case Op::Nonzero:
        return nonzero(root);
      case Op::Argsort:
        return argsort(root);
      default:
        return elementwise(step);
    }
  }
  [[nodiscard]] const KernelBody& body() const { return body_; }

 private:
  static constexpr const char* kSimd = "#pragma omp simd";

  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[id]; }
  [[nodiscard]] std::string_view type(NodeId id) const { return c_type(node(id).meta.dtype); }
  [[nodiscard]] std::vector<Expr> total(NodeId id) const {
    return {shapes::product(node(id).meta.sizes)};
  }

  std::string elementwise(const PlannedStep& step) {
    const NodeId first = step.roots.front();
    const auto& sizes = node(first).meta.sizes;
    const Access access = body_.open_loops(step.flat ? total(first) : sizes);
    body_.nest().set_pragma(kSimd);
    for (NodeId root : step.roots) {
      const std::string value = body_.root_value(root, access);
      body_.nest().before(body_.nest().innermost(),
                          fmt::format("{} = {};", body_.element(root, access, true), value));
    }
    return body_.nest().text();
  }

  // A reduction whose last dim is reduced keeps its total in a register; any other adds into memory
  // in the order in which the operand lies there, so that the inner loop is contiguous.
  std::string reduction(NodeId id) {
    const NodeId operand = node(id).inputs[0];
    const auto& sizes = node(operand).meta.sizes;
    const auto reduced = [&](std::size_t d) {
      return std::ranges::count(node(id).ints, static_cast<std::int64_t>(d)) > 0;
    };
    std::size_t last = sizes.size();
    while (last > 0 && sizes[last - 1].constant() == std::optional<std::int64_t>(1)) --last;
    if (node(id).op != Op::Argmax && last > 0 && !reduced(last - 1)) return memory_reduction(id);
    const bool all = node(id).meta.sizes.empty() && node(id).op != Op::Argmax;
    const bool flat = all && (plan_.flat[operand] || plan_.in_memory(operand));
    std::vector<Expr> kept, gone;
    for (std::size_t d = 0; d < sizes.size(); ++d) (reduced(d) ? gone : kept).push_back(sizes[d]);
    const Access outer = body_.open_loops(kept);
    const int level = body_.nest().innermost();
    const Access inner = body_.open_loops(flat ? total(operand) : gone);
    Access access = inner;
    if (!flat) {
      access = {sizes, {}};
      std::size_t k = 0, g = 0;
      for (std::size_t d = 0; d < sizes.size(); ++d)
        access.index.push_back(reduced(d) ? inner.index[g++] : outer.index[k++]);
    }
    if (node(id).op == Op::Argmax)
      arg_max(id, access, level);
    else
      register_reduction(id, access, level);
    body_.nest().after(level,
                       fmt::format("{} = total;", body_.element(id, {kept, outer.index}, true)));
    return body_.nest().text();
  }

  void register_reduction(NodeId id, const Access& access, int level) {
    const NodeId operand = node(id).inputs[0];
    LoopNest& nest = body_.nest();
    const bool floats = node(id).meta.dtype == DType::F32 || node(id).meta.dtype == DType::F64;
    const std::string value = body_.value(operand, access);
    if (node(id).op == Op::Sum) {
      nest.before(level, fmt::format("{} total = 0;", type(id)));
      nest.before(nest.innermost(), fmt::format("total += ({}){};", type(id), value));
      if (nest.innermost() > level) nest.set_pragma("#pragma omp simd reduction(+ : total)");
      return;
    }
    const bool is_max = node(id).op == Op::Amax;
    nest.before(level,
                fmt::format("{} total = {};", type(id), extreme_text(node(id).meta.dtype, is_max)));
    nest.before(nest.innermost(),
                fmt::format("total = {0} {1} total ? {0} : total;", value, is_max ? ">" : "<"));
    if (floats) {
      // A comparison passes over NaN, so it is looked for on its own.
      nest.before(level, "int nan = 0;");
      nest.before(nest.innermost(), fmt::format("nan |= {0} != {0};", value));
      nest.after(level, fmt::format("if (nan) total = {};",
                                    literal_text(node(id).meta.dtype, __builtin_nan(""))));
    }
    if (nest.innermost() > level && node(id).meta.dtype != DType::Bool)
      nest.set_pragma(fmt::format("#pragma omp simd reduction({} : total){}",
                                  is_max ? "max" : "min", floats ? " reduction(| : nan)" : ""));
  }

  void arg_max(NodeId id, const Access& access, int level) {
    const NodeId operand = node(id).inputs[0];
    LoopNest& nest = body_.nest();
    const IndexText at = access.index[static_cast<std::size_t>(node(id).ints[0])];
    nest.before(level, "long total = 0;");
    nest.before(level, fmt::format("{} best = 0;", type(operand)));
    const std::string value = body_.value(operand, access);
    nest.before(nest.innermost(), fmt::format("if ({0} == 0 || (best == best && ({1} > best || {1} "
                                              "!= {1}))) {{ best = {1}; total = {0}; }}",
                                              at.text, value));
  }

  std::string memory_reduction(NodeId id) {
    const NodeId operand = node(id).inputs[0];
    const auto& sizes = node(operand).meta.sizes;
    const bool is_sum = node(id).op == Op::Sum, is_max = node(id).op == Op::Amax;
    const std::string first = is_sum ? "0" : extreme_text(node(id).meta.dtype, is_max);
    std::string out = fill(id, first);
    body_.start_nest();
    const Access access = body_.open_loops(sizes);
    Access kept;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (std::ranges::count(node(id).ints, static_cast<std::int64_t>(d)) > 0) continue;
      kept.sizes.push_back(sizes[d]);
      kept.index.push_back(access.index[d]);
    }
    const std::string value = body_.value(operand, access);
    const std::string into = body_.element(id, kept, true);
    const std::string statement =
        is_sum ? fmt::format("{} += ({}){};", into, type(id), value)
               : fmt::format("{0} = ({0} == {0}) & (({1} {2} {0}) | ({1} != {1})) ? {1} : {0};",
                             into, value, is_max ? ">" : "<");
    body_.nest().before(body_.nest().innermost(), statement);
    body_.nest().set_pragma(kSimd);
    return out + body_.nest().text();
  }

  std::string fill(NodeId id, const std::string& value) {
    body_.start_nest();
    const Access access = body_.open_loops(total(id));
    body_.nest().before(body_.nest().innermost(),
                        fmt::format("{} = {};", body_.element(id, access, true), value));
    body_.nest().set_pragma(kSimd);
    return scoped(body_.nest().text());
  }

  std::string concatenation(NodeId id) {
    const auto dim = static_cast<std::size_t>(node(id).ints[0]);
    std::string out;
    Expr start;
    for (NodeId operand : node(id).inputs) {
      body_.start_nest();
      const auto& sizes = node(operand).meta.sizes;
      Access access = body_.open_loops(sizes);
      const std::string value = body_.value(operand, access);
      access.index[dim] = access.index[dim] + body_.number(start);
      access.sizes = node(id).meta.sizes;
      body_.nest().before(body_.nest().innermost(),
                          fmt::format("{} = {};", body_.element(id, access, true), value));
      body_.nest().set_pragma(kSimd);
      out += scoped(body_.nest().text());
      start = start + sizes[dim];
    }
    return out;
  }

  std::string index_add(NodeId id) {
    const NodeId index = node(id).inputs[0], rows = node(id).inputs[1];
    std::string out = fill(id, "0");
    body_.start_nest();
    Access access = body_.open_loops(node(rows).meta.sizes);
    const std::string value = body_.value(rows, access);
    const std::string row = body_.value(index, {node(index).meta.sizes, {access.index[0]}});
    // Two rows may have the same index, so only the loops inside a row are free of order.
    if (body_.nest().innermost() > access.index[0].level) body_.nest().set_pragma(kSimd);
    access.sizes = node(id).meta.sizes;
    access.index[0] = index_name(row, access.index[0].level);
    body_.nest().before(body_.nest().innermost(),
                        fmt::format("{} += {};", body_.element(id, access, true), value));
    return out + body_.nest().text();
  }

  std::string cumulative_sum(NodeId id) {
    body_.nest().before(-1, fmt::format("{} total = 0;", type(id)));
    const Access access = body_.open_loops(node(id).meta.sizes);
    const std::string value = body_.value(node(id).inputs[0], access);
    body_.nest().before(body_.nest().innermost(), fmt::format("total += ({}){};", type(id), value));
    body_.nest().before(body_.nest().innermost(),
                        fmt::format("{} = total;", body_.element(id, access, true)));
    return body_.nest().text();
  }

  std::string segment_ids(NodeId id) {
    const NodeId counts = node(id).inputs[0];
    body_.nest().before(-1, "long at = 0;");
    const Access access = body_.open_loops(node(counts).meta.sizes);
    const IndexText segment = access.index[0];
    body_.nest().before(
        body_.nest().innermost(),
        fmt::format("for (long end = at + {}; at < end; ++at) {}[at] = {};",
                    body_.value(counts, access), body_.buffer(id, true), segment.text));
    return body_.nest().text();
  }

  /// Writes the positions that it was told of, however many are true.
  std::string nonzero(NodeId id) {
    const NodeId mask = node(id).inputs[0];
    LoopNest& nest = body_.nest();
    nest.before(-1, "long at = 0;");
    const bool flat = plan_.flat[mask] || plan_.in_memory(mask);
    const Access access = body_.open_loops(flat ? total(mask) : node(mask).meta.sizes);
    const std::string value = body_.value(mask, access), out = body_.buffer(id, true),
                      count = body_.number(node(id).meta.sizes[0]).text;
    nest.before(nest.innermost(), fmt::format("if ({} && at < {}) {}[at++] = {};", value, count,
                                              out, body_.offset(access).text));
    nest.after(-1, fmt::format("for (; at < {}; ++at) {}[at] = 0;", count, out));
    return nest.text();
  }

  std::string argsort(NodeId id) {
    const std::string x = body_.buffer(node(id).inputs[0]), out = body_.buffer(id, true);
    return fmt::format("  argsort({}, {}, (long*)b[2], {});\n", x, out,
                       body_.number(node(id).meta.sizes[0]).text);
  }

  static std::string scoped(const std::string& loops) { return "  {\n" + loops + "  }\n"; }

  const Graph& graph_;
  KernelBody body_;
  const Plan& plan_;
};

}  // namespace

KernelText emit_kernel(const Graph& graph, const Plan& plan, const PlannedStep& step) {
  Emitter emitter(graph, plan);
  const std::string loops = emitter.emit(step);
  return {emitter.body().text(loops), emitter.body().buffers(),
          graph.nodes[step.roots.front()].op == Op::Argsort, emitter.body().arguments()};
}

}  // namespace lockstep::worker
