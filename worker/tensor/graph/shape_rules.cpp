#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op_map.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>
#include <lockstep/worker/tensor/graph/windows.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using Metas = std::span<const TensorMeta>;
using Outcome = Result<TensorMeta>;
using Rule = Outcome (*)(const Node&, Metas);

template <class... Args>
Status rule_error(const Node& node, fmt::format_string<Args...> format, Args&&... args) {
  const std::string words = fmt::format(format, std::forward<Args>(args)...);
  return Status{Code::TraceError, fmt::format("{}: {}", op_row(node.op).name, words)};
}

/// True if a and b differ for all values of the symbols.
bool surely_differ(const Expr& a, const Expr& b) { return (a - b).constant().value_or(0) != 0; }
bool surely_negative(const Expr& e) { return e.constant().value_or(0) < 0; }
bool is_dim(std::int64_t dim, const TensorMeta& meta) {
  return dim >= 0 && dim < static_cast<std::int64_t>(meta.sizes.size());
}
bool equal_but_for(const TensorMeta& a, const TensorMeta& b, std::int64_t dim) {
  if (a.dtype != b.dtype || a.sizes.size() != b.sizes.size()) return false;
  for (std::size_t i = 0; i < a.sizes.size(); ++i)
    if (static_cast<std::int64_t>(i) != dim && a.sizes[i] != b.sizes[i]) return false;
  return true;
}
bool is_counts(const TensorMeta& meta) {
  return meta.dtype == DType::I64 && meta.sizes.size() == 1;
}

Outcome input_rule(const Node& node, Metas) {
  if (node.text.empty()) return rule_error(node, "an input needs a name");
  return node.meta;
}

/// For Scalar and Assert.
Outcome single_rule(const Node&, Metas) { return TensorMeta{DType::I64, {}}; }

Outcome full_rule(const Node& node, Metas) {
  if (!is_value_of(node.meta.dtype, node.number))
    return rule_error(node, "{} is not a value of {}", node.number, dtype_name(node.meta.dtype));
  return node.meta;
}

Outcome iota_rule(const Node& node, Metas) {
  if (node.meta.dtype != DType::I64) return rule_error(node, "gives i64");
  if (!is_dim(node.ints[0], node.meta)) return rule_error(node, "there is no dim {}", node.ints[0]);
  return node.meta;
}

Outcome elementwise_rule(const Node& node, Metas in) {
  TensorMeta out = in[0];
  if (node.op == Op::Where) {
    if (in[0].dtype != DType::Bool) return rule_error(node, "the condition must be bool");
    if (in[1] != in[2] || in[0].sizes != in[1].sizes)
      return rule_error(node, "operands differ: {}, {}, {}", meta_text(in[0]), meta_text(in[1]),
                        meta_text(in[2]));
    return in[1];
  }
  for (const TensorMeta& other : in.subspan(1))
    if (other != in[0])
      return rule_error(node, "operands differ: {} and {}", meta_text(in[0]), meta_text(other));
  if (node.op == Op::Cast) out.dtype = node.meta.dtype;
  if (op_row(node.op).is(OpRow::GivesBool)) out.dtype = DType::Bool;
  return out;
}

Outcome expand_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  if (x.sizes.size() != node.meta.sizes.size() || x.dtype != node.meta.dtype)
    return rule_error(node, "{} does not expand to {}", meta_text(x), meta_text(node.meta));
  for (std::size_t i = 0; i < x.sizes.size(); ++i)
    if (x.sizes[i] != node.meta.sizes[i] && x.sizes[i] != Expr(1))
      return rule_error(node,
                        "{} does not expand to {}: dim {} is neither equal nor the constant 1",
                        meta_text(x), meta_text(node.meta), i);
  return node.meta;
}

Outcome permute_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  std::vector<std::int64_t> sorted = node.ints;
  std::sort(sorted.begin(), sorted.end());
  TensorMeta out{x.dtype, {}};
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<std::int64_t>(i) || sorted.size() != x.sizes.size())
      return rule_error(node, "({}) is no order of the dims of {}", fmt::join(node.ints, ", "),
                        meta_text(x));
  if (sorted.size() != x.sizes.size())
    return rule_error(node, "{} dims were named, but the tensor is {}", sorted.size(),
                      meta_text(x));
  for (const std::int64_t dim : node.ints)
    out.sizes.push_back(x.sizes[static_cast<std::size_t>(dim)]);
  return out;
}

/// Checks that the dims that the node names are dims of `x`, ascending.
std::optional<Status> dims_error(const Node& node, const TensorMeta& x) {
  for (std::size_t i = 0; i < node.ints.size(); ++i) {
    if (!is_dim(node.ints[i], x))
      return rule_error(node, "{} has no dim {}", meta_text(x), node.ints[i]);
    if (i > 0 && node.ints[i] <= node.ints[i - 1])
      return rule_error(node, "dims {} must ascend, each once", fmt::join(node.ints, ", "));
  }
  return std::nullopt;
}

Outcome flip_rule(const Node& node, Metas in) {
  if (node.ints.empty()) return rule_error(node, "needs at least one dim");
  if (auto status = dims_error(node, in[0])) return *status;
  return in[0];
}

/// For Slice and Pad.
Outcome part_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  const std::int64_t dim = node.ints[0];
  if (!is_dim(dim, x)) return rule_error(node, "{} has no dim {}", meta_text(x), dim);
  const auto d = static_cast<std::size_t>(dim);
  for (const Expr& expr : node.exprs)
    if (surely_negative(expr)) return rule_error(node, "{} is negative", expr.text());
  TensorMeta out = x;
  if (node.op == Op::Pad) {
    out.sizes[d] = node.exprs[0] + x.sizes[d] + node.exprs[1];
    return out;
  }
  if (!equal_but_for(node.meta, x, dim))
    return rule_error(node, "{} is no slice of {} along dim {}", meta_text(node.meta), meta_text(x),
                      dim);
  const Expr& length = node.meta.sizes[d];
  if (surely_negative(length) || surely_negative(x.sizes[d] - node.exprs[0] - length))
    return rule_error(node, "elements {} and {} more do not lie in dim {} of {}",
                      node.exprs[0].text(), length.text(), dim, meta_text(x));
  return node.meta;
}

Outcome windows_rule(const Node& node, Metas in) {
  if (const auto words = windows_error(node, in[0])) return rule_error(node, "{}", *words);
  return node.meta;
}

Outcome cat_rule(const Node& node, Metas in) {
  const std::int64_t dim = node.ints[0];
  if (in.empty()) return rule_error(node, "needs at least one tensor");
  if (!is_dim(dim, in[0])) return rule_error(node, "{} has no dim {}", meta_text(in[0]), dim);
  TensorMeta out = in[0];
  Expr& size = out.sizes[static_cast<std::size_t>(dim)];
  for (const TensorMeta& other : in.subspan(1)) {
    if (!equal_but_for(in[0], other, dim))
      return rule_error(node, "{} and {} differ in more than dim {}", meta_text(in[0]),
                        meta_text(other), dim);
    size = size + other.sizes[static_cast<std::size_t>(dim)];
  }
  return out;
}

Outcome reshape_rule(const Node& node, Metas in) {
  if (in[0].dtype != node.meta.dtype ||
      surely_differ(shapes::product(in[0].sizes), shapes::product(node.meta.sizes)))
    return rule_error(node, "{} and {} hold different numbers of elements", meta_text(in[0]),
                      meta_text(node.meta));
  return node.meta;
}

Outcome reduction_rule(const Node& node, const TensorMeta& x) {
  if (auto status = dims_error(node, x)) return *status;
  TensorMeta out{node.op == Op::Argmax ? DType::I64 : x.dtype, {}};
  if (node.op == Op::Sum && x.dtype == DType::F32 && node.meta.dtype == DType::F64)
    out.dtype = DType::F64;
  for (std::size_t i = 0; i < x.sizes.size(); ++i)
    if (!std::binary_search(node.ints.begin(), node.ints.end(), static_cast<std::int64_t>(i)))
      out.sizes.push_back(x.sizes[i]);
  return out;
}

Outcome matmul_rule(const Node& node, Metas in) {
  const auto& [a, b] = std::tie(in[0], in[1]);
  const std::size_t n = a.sizes.size();
  const bool fits = a.dtype == b.dtype && (n == 2 || n == 3) && b.sizes.size() == n &&
                    (n == 2 || a.sizes[0] == b.sizes[0]) && a.sizes[n - 1] == b.sizes[n - 2];
  if (!fits) return rule_error(node, "{} and {} do not fit", meta_text(a), meta_text(b));
  TensorMeta out = a;
  out.sizes[n - 1] = b.sizes[n - 1];
  return out;
}

Outcome segment_rule(const Node& node, Metas in) {
  const auto& [x, y, counts] = std::tie(in[0], in[1], in[2]);
  if (!is_counts(counts))
    return rule_error(node, "counts must be i64[E], not {}", meta_text(counts));
  const Expr& segments = counts.sizes[0];
  const bool outer = node.op == Op::SegmentOuter;
  const bool fits =
      x.dtype == y.dtype && x.sizes.size() == 2 && y.sizes.size() == (outer ? 2 : 3) &&
      (outer ? x.sizes[0] == y.sizes[0] : y.sizes[0] == segments && y.sizes[1] == x.sizes[1]);
  if (!fits)
    return rule_error(node, "{}, {} and counts {} do not fit", meta_text(x), meta_text(y),
                      meta_text(counts));
  if (outer) return TensorMeta{x.dtype, {segments, x.sizes[1], y.sizes[1]}};
  return TensorMeta{x.dtype, {x.sizes[0], y.sizes[2]}};
}

Outcome attention_rule(const Node& node, Metas in) {
  const std::size_t before = attention_operands(node.op), n = in.size();
  if (n != before && n != before + 1)
    return rule_error(node, "takes {} operands and perhaps a mask, not {}", before, n);
  if (node.ints[0] != 0 && node.ints[0] != 1)
    return rule_error(node, "is causal or not, not {}", node.ints[0]);
  const auto& [q, k, v] = std::tie(in[0], in[1], in[2]);
  const std::size_t dims = q.sizes.size();
  if (dims < 3 || k.sizes.size() + 1 != dims || v.sizes.size() + 1 != dims)
    return rule_error(node, "takes [.., G, L, E], [.., S, E] and [.., S, V], not {}, {} and {}",
                      meta_text(q), meta_text(k), meta_text(v));
  const std::span<const Expr> leading = std::span(q.sizes).first(dims - 3);
  const auto fits = [&](const TensorMeta& x) {
    return x.dtype == q.dtype && std::ranges::equal(leading, std::span(x.sizes).first(dims - 3)) &&
           x.sizes[dims - 3] == k.sizes[dims - 3];
  };
  if (!fits(k) || !fits(v) || k.sizes.back() != q.sizes.back())
    return rule_error(node, "{}, {} and {} do not fit", meta_text(q), meta_text(k), meta_text(v));
  TensorMeta out = q;
  out.sizes.back() = v.sizes.back() + Expr(1);
  if (n > before) {
    std::vector<Expr> scores = q.sizes;
    scores.back() = k.sizes[dims - 3];
    const TensorMeta& mask = in.back();
    bool equal = mask.sizes.size() == dims && (mask.dtype == DType::Bool || mask.dtype == q.dtype);
    for (std::size_t d = 0; equal && d < dims; ++d)
      equal = mask.sizes[d] == scores[d] || mask.sizes[d] == Expr(1);
    if (!equal)
      return rule_error(node, "the mask {} does not fit scores of {}", meta_text(mask),
                        meta_text({q.dtype, scores}));
  }
  if (node.op == Op::Attention) return out;
  if (in[3] != out || in[4] != out)
    return rule_error(node, "{} and {} are no results {}", meta_text(in[3]), meta_text(in[4]),
                      meta_text(out));
  return TensorMeta{
      q.dtype, {shapes::product(q.sizes) + shapes::product(k.sizes) + shapes::product(v.sizes)}};
}

Outcome index_select_rule(const Node& node, Metas in) {
  TensorMeta out = in[0];
  if (out.sizes.empty() || !is_counts(in[1]))
    return rule_error(node, "takes rows and i64[M], not {} and {}", meta_text(out),
                      meta_text(in[1]));
  out.sizes[0] = in[1].sizes[0];
  return out;
}

Outcome gather_rule(const Node& node, Metas in) {
  const auto& [x, index] = std::tie(in[0], in[1]);
  const std::int64_t dim = node.ints[0];
  if (!is_dim(dim, x)) return rule_error(node, "{} has no dim {}", meta_text(x), dim);
  const TensorMeta out{x.dtype, index.sizes};
  if (index.dtype != DType::I64 || !equal_but_for(x, out, dim))
    return rule_error(node,
                      "takes x and an i64 index that differs from it along dim {} at most, "
                      "not {} and {}",
                      dim, meta_text(x), meta_text(index));
  return out;
}

Outcome checked_index_rule(const Node& node, Metas in) {
  if (node.ints[0] < 0 || node.ints[0] > 4) return rule_error(node, "has no such kind of index");
  return in[0];
}

Outcome index_put_rule(const Node& node, Metas in) {
  const auto& [x, index, rows] = std::tie(in[0], in[1], in[2]);
  const std::int64_t mode = node.ints[0];
  if (mode < 0 || mode > static_cast<std::int64_t>(Put::Min))
    return rule_error(node, "there is no way {} to join rows", mode);
  if (x.sizes.empty() || !is_counts(index) || !equal_but_for(x, rows, 0) ||
      rows.sizes[0] != index.sizes[0])
    return rule_error(node, "takes x [R, ..], i64[M] and rows [M, ..], not {}, {} and {}",
                      meta_text(x), meta_text(index), meta_text(rows));
  if (mode != static_cast<std::int64_t>(Put::Set) && !is_number(x.dtype))
    return rule_error(node, "joins no rows of {} but by setting them; cast first",
                      dtype_name(x.dtype));
  return x;
}

Outcome index_add_rule(const Node& node, Metas in) {
  const auto& [index, rows] = std::tie(in[0], in[1]);
  if (!is_counts(index) || rows.sizes.empty() || rows.sizes[0] != index.sizes[0] ||
      !is_number(rows.dtype))
    return rule_error(node, "takes i64[M] and rows [M, ..], not {} and {}", meta_text(index),
                      meta_text(rows));
  TensorMeta out = rows;
  out.sizes[0] = node.exprs[0];
  return out;
}

/// For scans and Argsort, along the last dim.
Outcome rows_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  if (x.sizes.empty()) return rule_error(node, "a 0-d tensor has no last dim");
  const bool places = node.op == Op::Argsort || node.op == Op::CumArgmax;
  return TensorMeta{places ? DType::I64 : x.dtype, x.sizes};
}

Outcome search_sorted_rule(const Node& node, Metas in) {
  const auto& [sorted, values] = std::tie(in[0], in[1]);
  const auto last = static_cast<std::int64_t>(sorted.sizes.size()) - 1;
  if (last < 0 || !equal_but_for(sorted, values, last))
    return rule_error(node, "{} and {} differ in more than the last dim", meta_text(sorted),
                      meta_text(values));
  if (node.ints[0] != 0 && node.ints[0] != 1)
    return rule_error(node, "there is no side {}", node.ints[0]);
  return TensorMeta{DType::I64, values.sizes};
}

Outcome segment_ids_rule(const Node& node, Metas in) {
  if (!is_counts(in[0])) return rule_error(node, "takes i64[K], not {}", meta_text(in[0]));
  return TensorMeta{DType::I64, node.exprs};
}

Outcome nonzero_rule(const Node& node, Metas) { return TensorMeta{DType::I64, node.exprs}; }

Outcome all_to_all_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  const std::size_t n = node.exprs.size() / 2;
  if (n == 0 || node.exprs.size() % 2 != 0)
    return rule_error(node, "needs one split per rank each way");
  if (x.sizes.empty()) return rule_error(node, "a 0-d tensor has no rows");
  for (const Expr& split : node.exprs)
    if (surely_negative(split)) return rule_error(node, "split {} is negative", split.text());
  const std::span<const Expr> all(node.exprs);
  if (const Expr sent = shapes::sum(all.first(n)); surely_differ(sent, x.sizes[0]))
    return rule_error(node, "in_splits add up to {}, but the tensor is {}", sent.text(),
                      meta_text(x));
  TensorMeta out = x;
  out.sizes[0] = shapes::sum(all.subspan(n));
  return out;
}

Outcome all_reduce_rule(const Node& node, Metas in) {
  if (node.ints[0] < 0 || node.ints[0] > static_cast<std::int64_t>(collectives::Reduce::Max))
    return rule_error(node, "there is no reduction {}", node.ints[0]);
  return in[0];
}

Outcome broadcast_rule(const Node& node, Metas in) {
  if (node.ints[0] < 0) return rule_error(node, "there is no rank {}", node.ints[0]);
  return in[0];
}

Outcome all_gather_rule(const Node& node, Metas in) {
  TensorMeta out = in[0];
  if (node.ints[0] < 1 || out.sizes.empty())
    return rule_error(node, "needs rows and a group, not {}", meta_text(out));
  out.sizes[0] = out.sizes[0] * node.ints[0];
  return out;
}

Outcome reduce_scatter_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  const std::int64_t n = node.ints[0];
  if (n < 1 || x.sizes.empty())
    return rule_error(node, "needs rows and a group, not {}", meta_text(x));
  TensorMeta out = x;
  if (const auto rows = x.sizes[0].constant()) {
    if (*rows % n != 0) return rule_error(node, "{} rows cannot be shared by {} ranks", *rows, n);
    out.sizes[0] = *rows / n;
    return out;
  }
  // The caller chooses how the share of a symbol is written.
  if (!equal_but_for(node.meta, x, 0) || surely_differ(node.meta.sizes[0] * n, x.sizes[0]))
    return rule_error(node, "{} is no share of {} among {} ranks", meta_text(node.meta),
                      meta_text(x), n);
  out.sizes[0] = node.meta.sizes[0];
  return out;
}

Outcome host_sync_rule(const Node& node, Metas in) {
  const TensorMeta& x = in[0];
  const auto length = x.sizes.empty() ? std::optional<std::int64_t>(1) : x.sizes[0].constant();
  const std::size_t ndim = node.op == Op::ToList ? 1 : 0;
  if (x.sizes.size() != ndim || !length)
    return rule_error(node, "takes {}, not {}",
                      ndim ? "an i64 tensor [k] of constant length" : "a 0-d i64 tensor",
                      meta_text(x));
  if (static_cast<std::int64_t>(node.binds.size()) != *length)
    return rule_error(node, "binds {} symbols for {} values", node.binds.size(), *length);
  return TensorMeta{DType::I64, {}};
}

constexpr bool has_own_rule(const OpRow& row) {
  return row.kind != OpClass::Elementwise && row.kind != OpClass::Reduction &&
         row.kind != OpClass::Control && row.kind != OpClass::Result;
}
// clang-format off
constexpr OpMap<Rule> kRules(has_own_rule, {
    {Op::Input, input_rule}, {Op::Scalar, single_rule}, {Op::Full, full_rule},
    {Op::Iota, iota_rule},
    {Op::Reshape, reshape_rule}, {Op::Permute, permute_rule}, {Op::Expand, expand_rule},
    {Op::Slice, part_rule}, {Op::Pad, part_rule}, {Op::Cat, cat_rule}, {Op::Flip, flip_rule},
    {Op::Unfold, windows_rule}, {Op::Overlay, windows_rule},
    {Op::Matmul, matmul_rule}, {Op::SegmentMatmul, segment_rule},
    {Op::SegmentOuter, segment_rule}, {Op::Attention, attention_rule},
    {Op::AttentionGradient, attention_rule},
    {Op::IndexSelect, index_select_rule}, {Op::IndexAdd, index_add_rule},
    {Op::Gather, gather_rule}, {Op::CheckedIndex, checked_index_rule},
    {Op::IndexPut, index_put_rule},
    {Op::Argsort, rows_rule}, {Op::Cumsum, rows_rule}, {Op::SegmentIds, segment_ids_rule},
    {Op::Nonzero, nonzero_rule}, {Op::Cumprod, rows_rule}, {Op::CumArgmax, rows_rule},
    {Op::LogCumsumExp, rows_rule}, {Op::SearchSorted, search_sorted_rule},
    {Op::AllToAll, all_to_all_rule}, {Op::AllReduce, all_reduce_rule},
    {Op::AllGather, all_gather_rule}, {Op::ReduceScatter, reduce_scatter_rule},
    {Op::Broadcast, broadcast_rule},
    {Op::ToList, host_sync_rule}, {Op::Item, host_sync_rule}, {Op::Assert, single_rule},
    {Op::Own, own_result}, {Op::HostCall, own_result},
});
// clang-format on

/// Refuses sizes and row counts that are negative.
std::optional<Status> negative_error(const Node& node) {
  const OpClass kind = op_row(node.op).kind;
  for (const Expr& size : node.meta.sizes)
    if (kind == OpClass::Source && surely_negative(size))
      return rule_error(node, "a size cannot be negative ({})", size.text());
  for (const Expr& expr : node.exprs)
    if (kind == OpClass::Index && surely_negative(expr))
      return rule_error(node, "{} rows are negative", expr.text());
  return std::nullopt;
}

/// The dtypes that the op takes, in words; "" if it takes `dtype`.
std::string_view missing(Takes takes, DType dtype) {
  switch (takes) {
    case Takes::Any:
      return "";
    case Takes::Number:
      return is_number(dtype) ? "" : "numbers";
    case Takes::Float:
      return is_float(dtype) ? "" : "floating-point numbers";
    case Takes::Integer:
      return is_number(dtype) && !is_float(dtype) ? "" : "integers";
    case Takes::Bool:
      return dtype == DType::Bool ? "" : "bools";
    case Takes::I64:
      return dtype == DType::I64 ? "" : "i64";
  }
  return "";
}

std::optional<Status> arity_error(const Node& node, Metas in) {
  const OpRow& row = op_row(node.op);
  const auto wrong = [](int want, std::size_t have) {
    return want >= 0 && have != static_cast<std::size_t>(want);
  };
  if (wrong(row.operands, in.size()))
    return rule_error(node, "takes {} operands, not {}", row.operands, in.size());
  if (wrong(row.exprs, node.exprs.size()) || wrong(row.ints, node.ints.size()))
    return rule_error(node, "has the wrong number of attributes");
  const bool named = node.op == Op::Input || node.op == Op::Item || node.op == Op::CheckedIndex ||
                     row.kind == OpClass::Collective || row.kind == OpClass::Own;
  const bool numbered = node.op == Op::Full || node.op == Op::Reshape;
  if ((!named && !node.text.empty()) || (!numbered && node.number != 0) ||
      (row.kind != OpClass::HostSync && !node.binds.empty()) ||
      node.bodies.size() != bodies_of(node.op) || (row.kind != OpClass::Own && node.own) ||
      node.asserts.size() != (node.op == Op::Assert ? 1 : 0))
    return rule_error(node, "has an attribute that the op does not have");
  return std::nullopt;
}

}  // namespace

Expr attention_scores(const Graph& graph, const Node& node) {
  const auto sizes = [&](std::size_t k) -> const std::vector<Expr>& {
    return graph.nodes[node.inputs[k]].meta.sizes;
  };
  const auto rows = std::span(sizes(0)).first(sizes(0).size() - 1);
  return shapes::product(rows) * *(sizes(1).end() - 2);
}

Outcome result_meta(const Node& node, Metas in) {
  if (auto status = arity_error(node, in)) return *status;
  const OpRow& row = op_row(node.op);
  if (!in.empty())
    if (const auto want = missing(row.takes, in[0].dtype); !want.empty())
      return rule_error(node, "takes {}, not {}; cast first", want, meta_text(in[0]));
  for (const TensorMeta& operand : in)
    if (is_half(operand.dtype) && !takes_half(node))
      return rule_error(node, "{} goes into it as f32; cast first", meta_text(operand));
  if (row.kind == OpClass::Control) return control_meta(node, in);
  if (row.kind == OpClass::Result) return node.meta;
  if (auto status = negative_error(node)) return *status;
  if (row.kind == OpClass::Elementwise) return elementwise_rule(node, in);
  return row.kind == OpClass::Reduction ? reduction_rule(node, in[0]) : kRules[node.op](node, in);
}

}  // namespace lockstep::worker
