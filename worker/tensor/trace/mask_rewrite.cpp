#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/trace/mask_rewrite.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Location;
using shapes::Symbol;

bool mentions(const Expr& expr, Symbol symbol) {
  const std::vector<Symbol> symbols = expr.symbols();
  return std::ranges::find(symbols, symbol) != symbols.end();
}

/// Removes nodes that no output, collective or host sync needs; inputs stay.
void prune(Recording& recording) {
  std::vector<Node>& nodes = recording.nodes;
  std::vector<bool> needed(nodes.size(), false);
  for (const Graph::Output& output : recording.outputs) needed[output.node] = true;
  for (std::size_t id = nodes.size(); id-- > 0;) {
    if (must_keep(nodes[id]) || nodes[id].op == Op::Input) needed[id] = true;
    if (needed[id])
      for (const NodeId input : nodes[id].inputs) needed[input] = true;
  }
  std::vector<NodeId> place(nodes.size());
  std::vector<Node> kept;
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (!needed[id]) continue;
    place[id] = static_cast<NodeId>(kept.size());
    for (NodeId& input : nodes[id].inputs) input = place[input];
    kept.push_back(std::move(nodes[id]));
  }
  for (Graph::Output& output : recording.outputs) output.node = place[output.node];
  nodes = std::move(kept);
}

/// The total of no elements.
std::optional<double> neutral(const Node& total) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (total.op == Op::Sum) return 0;
  if (total.op == Op::Prod) return 1;
  if (!is_float(total.meta.dtype)) return std::nullopt;
  if (total.op == Op::Amax) return -kInfinity;
  if (total.op == Op::Amin) return kInfinity;
  return std::nullopt;
}

/// One count: which nodes have a row per true of the mask, and whether they can have a row per
/// element of the mask.
class MaskCount {
 public:
  MaskCount(const Recording& recording, NodeId item, shapes::ShapeEnv& env)
      : nodes_(recording.nodes),
        outputs_(recording.outputs),
        item_(item),
        u_(nodes_[item].binds[0]),
        env_(env),
        kinds_(nodes_.size(), Kind::Other) {}

  /// True if the item is the number of trues of a mask.
  [[nodiscard]] bool counts();
  struct Need {
    Location where;
    std::string what;
  };
  /// The first line that needs the count; nullopt if nothing does.
  [[nodiscard]] std::optional<Need> need(const std::vector<shapes::DeferredAssert>& asserts,
                                         const std::vector<UniformSize>& uniform);
  /// The recording without the count. Requires counts(), and that nothing needs the count.
  [[nodiscard]] Recording without();

 private:
  // Rows: one per true of the mask. Positions: those of the trues. Total: made of rows, but has no
  // rows.
  enum class Kind : std::uint8_t { Other, Rows, Positions, Total };

  [[nodiscard]] bool in(const Expr& expr) const { return mentions(expr, u_); }
  [[nodiscard]] bool is(std::size_t operand, const Node& node, Kind kind) const {
    return kinds_[node.inputs[operand]] == kind;
  }
  [[nodiscard]] bool has_rows(const Node& node) const {
    const std::vector<Expr>& sizes = node.meta.sizes;
    return !sizes.empty() && sizes[0] == Expr::symbol(u_) &&
           std::none_of(sizes.begin() + 1, sizes.end(), [&](const Expr& e) { return in(e); });
  }
  [[nodiscard]] bool mentioned(const Node& node) const {
    return std::ranges::any_of(node.meta.sizes, [&](const Expr& e) { return in(e); }) ||
           std::ranges::any_of(node.exprs, [&](const Expr& e) { return in(e); });
  }
  /// True if x has a row for each element of the mask.
  [[nodiscard]] bool has_all_rows(NodeId x) const {
    const std::vector<Expr>& sizes = nodes_[x].meta.sizes;
    return kinds_[x] == Kind::Other && !sizes.empty() && sizes[0] == all_;
  }
  /// The kind of the node; nullopt if it needs the count.
  [[nodiscard]] std::optional<Kind> kind_of(NodeId id) const;
  [[nodiscard]] bool by_rows(const Node& node) const;
  /// Look-ups with rows as indices give rows; additions by such indices give a total.
  [[nodiscard]] std::optional<Kind> looked_up(const Node& node) const;
  /// n if the expression is n times the count.
  [[nodiscard]] std::optional<Expr> times(const Expr& expr) const;

  // Building the graph without the count.
  NodeId add(Node node) {
    out_.nodes.push_back(std::move(node));
    return static_cast<NodeId>(out_.nodes.size() - 1);
  }
  [[nodiscard]] const TensorMeta& meta(NodeId placed) const { return out_.nodes[placed].meta; }
  [[nodiscard]] NodeId wide_mask(const std::vector<Expr>& sizes, const Location& where);
  /// `chosen` where the mask is true, else `other`.
  [[nodiscard]] NodeId where_true(NodeId chosen, NodeId other, const Location& where);
  [[nodiscard]] NodeId where_true_or(double other, NodeId chosen, const Location& where);
  [[nodiscard]] NodeId total(const Node& node);
  [[nodiscard]] NodeId count_times(const Node& node);
  [[nodiscard]] NodeId rows(Node node);
  /// The index, with 0 where the mask is false.
  [[nodiscard]] NodeId safe_index(NodeId index, const Location& where) {
    return where_true_or(0, place_[index], where);
  }

  const std::vector<Node>& nodes_;
  const std::vector<Graph::Output>& outputs_;
  NodeId item_;
  Symbol u_;
  shapes::ShapeEnv& env_;
  std::vector<Kind> kinds_;
  NodeId mask_ = 0;
  Expr all_;  // elements of the mask
  Recording out_;
  std::vector<NodeId> place_;
  std::map<std::vector<Expr>, NodeId> masks_;  // by sizes
  std::map<NodeId, NodeId> chosen_;            // original rows, by rows that are 1 where not chosen
};

bool MaskCount::counts() {
  NodeId id = nodes_[item_].inputs[0];
  if (nodes_[id].op == Op::Sum) id = nodes_[id].inputs[0];
  if (nodes_[id].op != Op::Cast || !nodes_[nodes_[item_].inputs[0]].meta.sizes.empty())
    return false;
  mask_ = nodes_[id].inputs[0];
  if (nodes_[mask_].meta.dtype != DType::Bool) return false;
  all_ = env_.simplify(shapes::product(nodes_[mask_].meta.sizes));
  return true;
}

std::optional<Expr> MaskCount::times(const Expr& expr) const {
  const Expr n = expr.substitute(u_, 1);
  if (in(n) || expr != n * Expr::symbol(u_)) return std::nullopt;
  return n;
}

bool MaskCount::by_rows(const Node& node) const {
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    if (!is(k, node, Kind::Rows) && node.op != Op::Expand) return false;
  if (std::ranges::any_of(node.exprs, [&](const Expr& e) { return in(e); })) return false;
  const auto over_rows = [&] { return std::ranges::find(node.ints, 0) != node.ints.end(); };
  switch (node.op) {
    case Op::Full:
    case Op::Reshape:
      return true;
    case Op::Iota:
    case Op::Slice:
    case Op::Pad:
    case Op::Cat:
    case Op::Flip:
    case Op::Argmax:
      return !over_rows();
    case Op::Expand:
      return is(0, node, Kind::Rows) ||
             (is(0, node, Kind::Other) && nodes_[node.inputs[0]].meta.sizes[0] == Expr(1));
    case Op::Permute:
      return node.ints[0] == 0;
    default:
      break;
  }
  const OpRow& row = op_row(node.op);
  if (row.kind == OpClass::Reduction) return !over_rows();
  return row.kind == OpClass::Elementwise && !row.is(OpRow::RefusesValues);
}

// Rows that were not chosen look up element 0, so it must exist in every run.
std::optional<MaskCount::Kind> MaskCount::looked_up(const Node& node) const {
  const auto some = [&](const Expr& limit) {
    return !in(limit) && env_.statically_true(shapes::greater(limit, 0));
  };
  const auto size = [&](std::int64_t dim) {
    return nodes_[node.inputs[0]].meta.sizes[static_cast<std::size_t>(dim)];
  };
  switch (node.op) {
    case Op::CheckedIndex: {
      const bool of_indices = node.ints[0] == 0 || node.ints[0] == 1;
      if (of_indices && is(0, node, Kind::Rows) && has_rows(node) && some(node.exprs[0]))
        return Kind::Rows;
      return std::nullopt;
    }
    case Op::IndexSelect:
      if (is(0, node, Kind::Other) && is(1, node, Kind::Rows) && has_rows(node) && some(size(0)))
        return Kind::Rows;
      return std::nullopt;
    case Op::Gather: {
      const Kind source = node.ints[0] == 0 ? Kind::Other : Kind::Rows;
      if (is(0, node, source) && is(1, node, Kind::Rows) && has_rows(node) &&
          some(size(node.ints[0])))
        return Kind::Rows;
      return std::nullopt;
    }
    case Op::IndexAdd:
      if (is(0, node, Kind::Rows) && is(1, node, Kind::Rows) && !mentioned(node) &&
          some(node.exprs[0]))
        return Kind::Total;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<MaskCount::Kind> MaskCount::kind_of(NodeId id) const {
  const Node& node = nodes_[id];
  const bool of_rows =
      std::ranges::any_of(node.inputs, [&](NodeId input) { return kinds_[input] == Kind::Rows; });
  const bool of_places = std::ranges::any_of(
      node.inputs, [&](NodeId input) { return kinds_[input] == Kind::Positions; });
  if (id == item_ || (!mentioned(node) && !of_rows && !of_places)) return Kind::Other;
  if (node.op == Op::Nonzero)
    if (node.inputs[0] == mask_ && node.exprs[0] == Expr::symbol(u_)) return Kind::Positions;
  if (node.op == Op::Scalar && times(node.exprs[0])) return Kind::Total;
  if (node.op == Op::IndexSelect)
    if (is(1, node, Kind::Positions) && has_all_rows(node.inputs[0]) && has_rows(node))
      return Kind::Rows;
  if (node.op == Op::IndexAdd)
    if (is(0, node, Kind::Positions) && is(1, node, Kind::Rows) && node.exprs[0] == all_)
      return Kind::Total;
  if (node.op == Op::IndexPut && node.ints[0] == static_cast<std::int64_t>(Put::Set))
    if (has_all_rows(node.inputs[0]) && is(1, node, Kind::Positions) && is(2, node, Kind::Rows))
      return Kind::Total;
  if (of_places) return std::nullopt;
  if (const auto kind = looked_up(node)) return kind;
  if (has_rows(node) && by_rows(node)) return Kind::Rows;
  if (op_row(node.op).kind == OpClass::Reduction && is(0, node, Kind::Rows) && !mentioned(node) &&
      neutral(node))
    return Kind::Total;
  return std::nullopt;
}

std::optional<MaskCount::Need> MaskCount::need(const std::vector<shapes::DeferredAssert>& asserts,
                                               const std::vector<UniformSize>& uniform) {
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const std::optional<Kind> kind = kind_of(id);
    if (!kind) return Need{nodes_[id].where, std::string(op_name(nodes_[id]))};
    // A total has no size that depends on the count.
    kinds_[id] = *kind == Kind::Total ? Kind::Other : *kind;
  }
  for (const Graph::Output& output : outputs_)
    if (kinds_[output.node] != Kind::Other)
      return Need{nodes_[output.node].where, fmt::format("the output {}", output.name)};
  for (const shapes::DeferredAssert& deferred : asserts)
    if (in(deferred.predicate.expr)) return Need{deferred.where, "a check of the size"};
  for (const UniformSize& size : uniform)
    if (in(size.expr)) return Need{nodes_[item_].where, "a size that all ranks need alike"};
  return std::nullopt;
}

NodeId MaskCount::wide_mask(const std::vector<Expr>& sizes, const Location& where) {
  const auto known = masks_.find(sizes);
  if (known != masks_.end()) return known->second;
  const NodeId mask = place_[mask_];
  std::vector<Expr> column(sizes.size(), 1);
  column[0] = all_;
  NodeId wide = mask;
  if (meta(mask).sizes != column)
    wide =
        add({.op = Op::Reshape, .inputs = {mask}, .meta = {DType::Bool, column}, .where = where});
  if (sizes != column)
    wide = add({.op = Op::Expand, .inputs = {wide}, .meta = {DType::Bool, sizes}, .where = where});
  return masks_[sizes] = wide;
}

NodeId MaskCount::where_true(NodeId chosen, NodeId other, const Location& where) {
  if (const auto as_it_came = chosen_.find(chosen); as_it_came != chosen_.end())
    chosen = as_it_came->second;
  const TensorMeta wide = meta(chosen);
  const NodeId mask = wide_mask(wide.sizes, where);
  return add({.op = Op::Where, .inputs = {mask, chosen, other}, .meta = wide, .where = where});
}

NodeId MaskCount::where_true_or(double other, NodeId chosen, const Location& where) {
  const NodeId full = add({.op = Op::Full, .number = other, .meta = meta(chosen), .where = where});
  return where_true(chosen, full, where);
}

/// A node of kind Total, except the count itself.
NodeId MaskCount::total(const Node& node) {
  if (node.op == Op::IndexAdd) {
    const NodeId added = where_true_or(0, place_[node.inputs[1]], node.where);
    if (is(0, node, Kind::Positions)) return added;
    Node by_index = node;
    by_index.inputs = {safe_index(node.inputs[0], node.where), added};
    return add(std::move(by_index));
  }
  if (node.op == Op::IndexPut)
    return where_true(place_[node.inputs[2]], place_[node.inputs[0]], node.where);
  Node over = node;
  over.inputs = {where_true_or(*neutral(node), place_[node.inputs[0]], node.where)};
  return add(std::move(over));
}

NodeId MaskCount::count_times(const Node& node) {
  const NodeId count = place_[nodes_[item_].inputs[0]];
  const Expr n = *times(node.exprs[0]);
  if (n == Expr(1)) return count;
  const NodeId factor =
      add({.op = Op::Scalar, .exprs = {n}, .meta = node.meta, .where = node.where});
  return add({.op = Op::Mul, .inputs = {count, factor}, .meta = node.meta, .where = node.where});
}

NodeId MaskCount::rows(Node node) {
  if (node.op == Op::IndexSelect && is(1, node, Kind::Positions)) {
    const NodeId x = place_[node.inputs[0]];
    const NodeId safe = where_true_or(1, x, node.where);
    chosen_[safe] = x;
    return safe;
  }
  const std::optional<NodeId> index =
      looked_up(node) ? std::optional(safe_index(node.inputs.back(), node.where)) : std::nullopt;
  node.meta.sizes[0] = all_;
  for (NodeId& input : node.inputs) input = place_[input];
  if (index) node.inputs.back() = *index;
  return add(std::move(node));
}

Recording MaskCount::without() {
  place_.resize(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    if (id == item_ || kinds_[id] == Kind::Positions) continue;
    const bool of_rows = std::ranges::any_of(node.inputs, [&](NodeId input) {
      return kinds_[input] == Kind::Rows || kinds_[input] == Kind::Positions;
    });
    if (kinds_[id] == Kind::Rows) {
      place_[id] = rows(node);
    } else if (of_rows) {
      place_[id] = total(node);
    } else if (node.op == Op::Scalar && in(node.exprs[0])) {
      place_[id] = count_times(node);
    } else {
      Node same = node;
      for (NodeId& input : same.inputs) input = place_[input];
      place_[id] = add(std::move(same));
    }
  }
  out_.outputs = outputs_;
  for (Graph::Output& output : out_.outputs) output.node = place_[output.node];
  return std::move(out_);
}

}  // namespace

std::map<Symbol, std::string> rewrite_masks(Recording& recording,
                                            const std::vector<shapes::DeferredAssert>& asserts,
                                            const std::vector<UniformSize>& uniform,
                                            shapes::ShapeEnv& env, bool allowed) {
  const auto counted = [](const Node& node) {
    return node.op == Op::Item && node.binds.size() == 1;
  };
  std::map<Symbol, std::string> lines;
  if (std::ranges::none_of(recording.nodes, counted)) return lines;
  prune(recording);
  std::vector<Symbol> items;
  for (const Node& node : recording.nodes)
    if (counted(node)) items.push_back(node.binds[0]);
  for (std::size_t i = items.size(); i-- > 0;) {
    const auto item = std::ranges::find_if(recording.nodes, [&](const Node& node) {
      return counted(node) && node.binds[0] == items[i];
    });
    const std::string text = item->text, line = item->where.text();
    MaskCount count(recording, static_cast<NodeId>(item - recording.nodes.begin()), env);
    if (text.empty() || !count.counts()) continue;
    if (const auto need = count.need(asserts, uniform)) {
      lines[items[i]] = fmt::format("{} of {} is read back: {} in {} needs it", text, line,
                                    need->what, need->where.text());
    } else if (!allowed) {
      lines[items[i]] = fmt::format(
          "{} of {} is read back: nothing needs it, but other ranks may run other graphs", text,
          line);
    } else {
      recording = count.without();
      prune(recording);
      lines[items[i]] =
          fmt::format("{} of {} is not read back: where() stands in its place", text, line);
    }
  }
  return lines;
}

}  // namespace lockstep::worker
