#include <cmath>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// A dtype that holds the values of both.
DType wider(DType a, DType b) {
  if (a == b) return a;
  return is_half(a) && is_half(b) ? DType::F32 : std::max(a, b);
}

/// The widest of the float dtypes; nullopt without floats.
std::optional<DType> widest(const std::vector<Tensor>& xs) {
  std::optional<DType> out;
  for (const Tensor& x : xs)
    if (!x.empty() && is_float(x.dtype())) out = wider(out.value_or(x.dtype()), x.dtype());
  return out;
}

/// The tensors with floats cast to `dtype`.
std::vector<Tensor> floats_as(DType dtype, std::vector<Tensor> xs, const Line& where) {
  for (Tensor& x : xs)
    if (!x.empty() && is_float(x.dtype())) x = cast(x, dtype, where);
  return xs;
}

/// Operands cast as autocast does.
std::vector<Tensor> autocast(const OpRow& row, std::vector<Tensor> xs, DType low,
                             const Line& where) {
  const std::optional<DType> wide = widest(xs);
  // The user's functions read the dtypes that they are given.
  if (row.op == Op::Own || row.op == Op::HostCall) return xs;
  if (!wide || row.op == Op::Cast || *wide == DType::F64) return xs;
  if (row.is(OpRow::AutocastLow)) return floats_as(low, std::move(xs), where);
  return floats_as(row.is(OpRow::AutocastF32) ? DType::F32 : *wide, std::move(xs), where);
}

[[noreturn]] void refuse_dtypes(std::string_view what, DType a, DType b, const Line& where) {
  refuse(where, what,
         fmt::format("dtypes differ: {} and {}; cast() one of them", dtype_name(a), dtype_name(b)));
}

/// The dtype that numbers, float inputs and integers take: that of the first operand with a dtype
/// of its own.
DType common_dtype(std::string_view what, const std::vector<TensorOperand>& operands, bool promotes,
                   const Line& where) {
  std::optional<DType> dtype;
  bool fraction = false;
  for (const TensorOperand& operand : operands) {
    if (operand.plain && !operand.fraction && std::abs(operand.number) >= 0x1p53)
      refuse(where, what, "an integer this large is not exact here; write scalar()");
    if (!operand.has_dtype()) {
      fraction = fraction || operand.weak || operand.fraction;
      continue;
    }
    const DType mine = operand.tensor.dtype();
    const bool promoted = promotes && dtype && is_float(*dtype) && is_float(mine);
    if (dtype && *dtype != mine && !promoted) refuse_dtypes(what, *dtype, mine, where);
    dtype = promoted ? wider(*dtype, mine) : mine;
  }
  if (fraction && dtype && !is_float(*dtype))
    refuse(where, what,
           fmt::format("a floating-point number meets a tensor of {}; cast() the tensor",
                       dtype_name(*dtype)));
  return dtype.value_or(fraction ? DType::F64 : DType::I64);
}

Expr broadcast_size(std::string_view what, Trace& trace, const Expr& one, const Expr& other,
                    const Line& where) {
  if (one == other || other == Expr(1)) return one;
  if (one == Expr(1)) return other;
  // The equality of two sizes that no rank has seen vary becomes a guard.
  if (trace.only_settled(one) && trace.only_settled(other) &&
      trace.env().peek(one - other, 1) == 0 &&
      trace.env().evaluate(shapes::equal(one, other), trace.here(where)))
    return trace.env().simplify(one);
  const Expr a = trace.one_or(one, where), b = trace.one_or(other, where);
  if (b == Expr(1)) return a;
  if (a == Expr(1)) return b;
  if (a.constant() && b.constant())
    refuse(where, what, fmt::format("sizes {} and {} do not fit", a.text(), b.text()));
  trace.env().check(
      shapes::equal(a, b), trace.here(where),
      fmt::format("{} needs equal sizes; expand() a dim of size 1 that should broadcast", what));
  return trace.env().simplify(a);
}

std::vector<Expr> broadcast_sizes(std::string_view what, Trace& trace,
                                  const std::vector<Tensor>& xs, const Line& where) {
  std::vector<std::vector<Expr>> lists;
  for (const Tensor& x : xs)
    if (!x.empty()) lists.push_back(meta_of(x).sizes);
  return broadcast_sizes(what, trace, lists, where);
}

}  // namespace

void refuse(const Line& where, std::string_view what, std::string_view words) {
  throw TraceUsageError(location(where).text() + ": " +
                        NamedCall::said(fmt::format("{}: {}", what, words)));
}

std::shared_ptr<Trace> trace_of(std::string_view what, std::span<const Tensor> operands,
                                const Line& where) {
  for (const Tensor& operand : operands)
    if (operand.traced()) {
      for (const Tensor& other : operands) (void)operand.trace()->operand(other, where);
      return operand.trace();
    }
  refuse(where, what, "works on tensors of a compiled frame only; call it in the traced function");
}

std::shared_ptr<Trace> trace_of(std::string_view what, const Sizes& sizes, const Line& where) {
  for (const SymInt& size : sizes)
    if (size.trace()) {
      for (const SymInt& other : sizes) size.trace()->need_own(other, where);
      return size.trace();
    }
  refuse(where, what,
         "none of the sizes comes from the frame's inputs; pass the Trace as first argument");
}

std::shared_ptr<Trace> trace_of(std::string_view what, std::span<const Tensor> operands,
                                const Sizes& sizes, const Line& where) {
  std::shared_ptr<Trace> trace = trace_of(what, operands, where);
  for (const SymInt& size : sizes) trace->need_own(size, where);
  return trace;
}

Tensor emit(Op op, const std::vector<Tensor>& operands, Node attributes, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(op_row(op).name, operands, where);
  attributes.op = op;
  const std::optional<DType> low = trace->autocast();
  std::vector<Tensor> taken = low ? autocast(op_row(op), operands, *low, where) : operands;
  std::optional<DType> rounded;
  if (!takes_half(attributes))
    for (Tensor& operand : taken)
      if (is_low(operand) && (!rounded || rounded == operand.dtype())) {
        rounded = operand.dtype();
        operand = widened(operand, where);
      }
  for (const Tensor& operand : taken) attributes.inputs.push_back(trace->operand(operand, where));
  Tensor out = trace->add_node(std::move(attributes), where);
  return rounded && out.dtype() == DType::F32 ? cast(out, *rounded, where) : out;
}

bool is_low(const Tensor& x) { return x.traced() && x.trace()->is_open() && is_half(x.dtype()); }
Tensor widened(const Tensor& x, const Line& where) {
  return is_low(x) ? cast(x, DType::F32, where) : x;
}
Tensor narrowed(const Tensor& x, DType dtype, InAutocast in_autocast, const Line& where) {
  return in_autocast == InAutocast::StayF32 && x.trace()->autocast() ? x : cast(x, dtype, where);
}

std::vector<Tensor> of_one_dtype(std::string_view what, std::vector<Tensor> xs, const Line& where) {
  const bool promotes = trace_of(what, xs, where)->autocast().has_value();
  const std::optional<DType> wide = promotes ? widest(xs) : std::nullopt;
  if (wide) xs = floats_as(*wide, std::move(xs), where);
  for (const Tensor& x : xs)
    if (x.dtype() != xs[0].dtype()) refuse_dtypes(what, xs[0].dtype(), x.dtype(), where);
  return xs;
}

TensorMeta meta_of(const Tensor& x) { return x.trace()->meta(x.node()); }

std::int64_t checked_dim(std::string_view what, const Tensor& x, std::int64_t dim,
                         const Line& where) {
  const std::int64_t n = x.ndim(where);
  if (dim < -n || dim >= n)
    refuse(where, what, fmt::format("a tensor with {} dims has no dim {}", n, dim));
  return dim < 0 ? dim + n : dim;
}

std::vector<Expr> exprs_of(const Sizes& sizes) {
  std::vector<Expr> exprs;
  for (const SymInt& size : sizes) exprs.push_back(size.expr());
  return exprs;
}

Tensor view(const Tensor& x, std::vector<Expr> sizes, const Line& where) {
  const TensorMeta from = meta_of(x);
  if (from.sizes == sizes) return x;
  Node node;
  node.meta = {from.dtype, std::move(sizes)};
  return emit(Op::Reshape, {x}, std::move(node), where);
}

void need_value(std::string_view what, DType dtype, double number, const Line& where) {
  if (!is_value_of(dtype, number))
    refuse(where, what, fmt::format("{} is not a value of {}", number, dtype_name(dtype)));
}

Tensor filled(Trace& trace, const TensorMeta& meta, double value, const Line& where) {
  Node node;
  node.op = Op::Full;
  node.number = value;
  node.meta = meta;
  return trace.add_node(std::move(node), where);
}

Tensor expanded(const Tensor& x, const std::vector<Expr>& sizes, const Line& where) {
  std::vector<Expr> from = meta_of(x).sizes;
  from.insert(from.begin(), sizes.size() - from.size(), Expr(1));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (from[i] != Expr(1)) from[i] = sizes[i];  // known to be equal, perhaps written differently
  const Tensor same_dims = view(x, from, where);
  if (from == sizes) return same_dims;
  Node node;
  node.meta = {meta_of(x).dtype, sizes};
  return emit(Op::Expand, {same_dims}, std::move(node), where);
}

std::vector<Expr> broadcast_sizes(std::string_view what, Trace& trace,
                                  const std::vector<std::vector<Expr>>& lists, const Line& where) {
  std::vector<Expr> out;
  for (const std::vector<Expr>& sizes : lists) {
    if (sizes.size() > out.size()) out.insert(out.begin(), sizes.size() - out.size(), Expr(1));
    const std::size_t lead = out.size() - sizes.size();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      out[lead + i] = broadcast_size(what, trace, out[lead + i], sizes[i], where);
  }
  for (Expr& size : out) size = trace.env().simplify(size);
  return out;
}

std::vector<Tensor> broadcast_together(std::string_view what, const std::vector<Tensor>& xs,
                                       const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, xs, where);
  const std::vector<Expr> sizes = broadcast_sizes(what, *trace, xs, where);
  std::vector<Tensor> out;
  for (const Tensor& x : xs) out.push_back(expanded(x, sizes, where));
  return out;
}

std::vector<Tensor> aligned(std::string_view what, const std::vector<TensorOperand>& operands,
                            const Line& where) {
  std::vector<Tensor> tensors;
  Sizes counts;
  for (const TensorOperand& operand : operands) {
    if (operand.count) counts.push_back(*operand.count);
    if (!operand.plain && !operand.count) tensors.push_back(operand.tensor);
  }
  const std::shared_ptr<Trace> trace = tensors.empty() && !counts.empty()
                                           ? trace_of(what, counts, where)
                                           : trace_of(what, tensors, counts, where);
  const DType dtype = common_dtype(what, operands, trace->autocast().has_value(), where);
  tensors.clear();
  for (const TensorOperand& operand : operands)
    if (operand.plain) need_value(what, dtype, operand.number, where);
  for (const TensorOperand& operand : operands) {
    const bool is_count = operand.count && !operand.plain;
    const Tensor value = is_count ? scalar(*trace, *operand.count, operand.where) : operand.tensor;
    tensors.push_back(operand.plain ? value : cast(value, dtype, where));
  }
  const std::vector<Expr> sizes = broadcast_sizes(what, *trace, tensors, where);
  for (std::size_t i = 0; i < operands.size(); ++i)
    tensors[i] = operands[i].plain ? filled(*trace, {dtype, sizes}, operands[i].number, where)
                                   : expanded(tensors[i], sizes, where);
  return tensors;
}

std::vector<Tensor> with_own_gradient(std::string_view what, const std::vector<Tensor>& inputs,
                                      const std::vector<Tensor>& results, BackwardFunction backward,
                                      const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, inputs, where);
  (void)trace_of(what, results, where);
  OwnGradient own{{}, {}, std::move(backward), trace->here(where)};
  for (const Tensor& input : inputs) own.inputs.push_back(trace->operand(input, where));
  std::vector<Tensor> outputs;
  for (const Tensor& result : results) {
    // A number of its own keeps the node apart from equal values made without this gradient.
    Node same{.number = static_cast<double>(trace->own_number()), .meta = meta_of(result)};
    outputs.push_back(emit(Op::Reshape, {result}, std::move(same), where));
    own.outputs.push_back(outputs.back().node());
  }
  trace->add_own_gradient(std::move(own));
  return outputs;
}

}  // namespace lockstep::worker
