// Random numbers, made of the bits of each element (key.h). No result may depend on whether a
// compiler fuses a multiplication and an addition: before an addition, a product is exact or is
// written as a division.
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/random_ops.h>

namespace lockstep::worker {
namespace {

std::shared_ptr<Trace> trace_of_draw(std::string_view what, const RankKey& key, const Sizes& sizes,
                                     const Line& where) {
  if (!key.traced())
    refuse(where, what,
           "the key is a constant of the traced function, so every call would draw the same; pass "
           "it to the frame as an input");
  return trace_of(what, std::vector{key.tensor()}, sizes, where);
}

void need_drawn_dtype(std::string_view what, DType dtype, const Line& where) {
  if (dtype != DType::F32 && dtype != DType::F64)
    refuse(where, what, fmt::format("draws f32 and f64, not {}; cast() them", dtype_name(dtype)));
}

Tensor place(std::string_view what, Trace& trace, const TensorOperand& at, const Line& where) {
  if (at.count) return scalar(trace, *at.count, where);
  if (at.plain && !at.fraction) return scalar(trace, static_cast<std::int64_t>(at.number), where);
  if (at.has_dtype() && at.tensor.dtype(where) == DType::I64 && at.tensor.ndim(where) == 0)
    return at.tensor;
  refuse(where, what, "sizes and starts of a part are integers, or 0-d tensors of i64");
}

/// Index of each element in the whole.
Tensor indices(std::string_view what, Trace& trace, const Sizes& sizes, const Part& part,
               const Line& where) {
  const bool alone = part.sizes.empty() && part.starts.empty();
  if (!alone && (part.sizes.size() != sizes.size() || part.starts.size() != sizes.size()))
    refuse(where, what,
           fmt::format("a part of {} dims has {} sizes of the whole and {} starts", sizes.size(),
                       part.sizes.size(), part.starts.size()));
  const auto times = [&](const Tensor& a, const Tensor& b) {
    return TensorOperand(a, where) * TensorOperand(b, where);
  };
  const auto plus = [&](const Tensor& a, const Tensor& b) {
    return TensorOperand(a, where) + TensorOperand(b, where);
  };
  Tensor index = full(trace, sizes, 0, DType::I64, where), stride;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    Node node;
    node.op = Op::Iota;
    node.ints = {static_cast<std::int64_t>(d)};
    node.meta = {DType::I64, exprs_of(sizes)};
    Tensor along = trace.add_node(std::move(node), where);
    if (!alone) along = plus(along, place(what, trace, part.starts[d], where));
    index = stride.empty() ? along : plus(index, times(along, stride));
    if (d == 0) break;
    const Tensor size =
        alone ? scalar(trace, sizes[d], where) : place(what, trace, part.sizes[d], where);
    stride = stride.empty() ? size : times(stride, size);
  }
  return index;
}

/// The random bits of a tensor.
class Bits {
 public:
  Bits(std::string_view what, const RankKey& key, const Sizes& sizes, const Part& part,
       const Line& where)
      : key_(key),
        index_(indices(what, *trace_of_draw(what, key, sizes, where), sizes, part, where)),
        where_(where) {}

  [[nodiscard]] Tensor all(RandomStream stream = RandomStream::Draw) const {
    return random_bits(key_, index_, stream, where_);
  }
  /// `count` bits per element; the lowest is bit `from`.
  [[nodiscard]] Tensor some(int from, int count, RandomStream stream = RandomStream::Draw) const {
    const Tensor shifted =
        from == 0 ? all(stream) : TensorOperand(all(stream), where_) >> TensorOperand(from, where_);
    return TensorOperand(shifted, where_) & TensorOperand((std::int64_t{1} << count) - 1, where_);
  }
  /// Floats in [0, 1), from the highest bits of the first word (f32) or of all bits (f64).
  [[nodiscard]] Tensor unit(DType dtype, RandomStream stream = RandomStream::Draw) const {
    return dtype == DType::F32 ? scaled(some(8, 24, stream), dtype, 0x1p-24)
                               : scaled(some(11, 53, stream), dtype, 0x1p-53);
  }
  /// Floats in [0, 1), from bits that inner() does not use.
  [[nodiscard]] Tensor second_unit(DType dtype) const {
    return dtype == DType::F32 ? scaled(some(40, 24), dtype, 0x1p-24)
                               : unit(dtype, RandomStream::SecondDraw);
  }
  /// Floats in (0, 1), with small numbers as fine as the bits allow.
  [[nodiscard]] Tensor inner(DType dtype) const {
    const bool narrow = dtype == DType::F32;
    const Tensor number = cast(narrow ? some(0, 32) : some(11, 53), dtype, where_);
    const Tensor middle = TensorOperand(number, where_) + TensorOperand(0.5, where_);
    const Tensor unit =
        TensorOperand(middle, where_) * TensorOperand(narrow ? 0x1p-32 : 0x1p-53, where_);
    return minimum(TensorOperand(unit, where_),
                   TensorOperand(1 - (narrow ? 0x1p-24 : 0x1p-53), where_));
  }

 private:
  [[nodiscard]] Tensor scaled(const Tensor& bits, DType dtype, double by) const {
    return TensorOperand(cast(bits, dtype, where_), where_) * TensorOperand(by, where_);
  }
  RankKey key_;
  Tensor index_;
  Line where_;
};

void need_probability(std::string_view what, const SymFloat& p, const Line& where) {
  if (!p.traced() && !(p.value(where) >= 0 && p.value(where) <= 1))
    refuse(where, what, fmt::format("a probability is from 0 to 1, not {}", p.value(where)));
}

/// 1 / (1 - p); 0 for p = 1.
TensorOperand scale_of_kept(const SymFloat& p, const Line& where) {
  if (!p.traced()) return {p.value(where) == 1 ? 0.0 : 1 / (1 - p.value(where)), where};
  const Tensor given = detach(p.tensor(), where);
  const TensorOperand left(TensorOperand(1, where) - TensorOperand(given, where), where);
  const Tensor scale =
      lockstep::worker::where(left > TensorOperand(0.0, where), TensorOperand(1.0, where) / left,
                              TensorOperand(0.0, where));
  return {SymFloat(scale), where};
}

}  // namespace

Tensor uniform(const RankKey& key, const Sizes& sizes, const Draw& draw, Line where) {
  const NamedCall call("uniform");
  need_drawn_dtype("uniform", draw.dtype, where);
  return Bits("uniform", key, sizes, draw.part, where).unit(draw.dtype);
}

Tensor uniform(const RankKey& key, const Sizes& sizes, double low, double high, const Draw& draw,
               Line where) {
  const NamedCall call("uniform");
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low))
    refuse(where, "uniform", fmt::format("takes finite low < high, not {} and {}", low, high));
  const TensorOperand unit(uniform(key, sizes, draw, where), where);
  if (low == 0 && high == 1) return unit.tensor;
  // A division is never fused with the addition.
  const Tensor wide = high - low == 1 ? unit.tensor : unit / TensorOperand(1 / (high - low), where);
  const Tensor moved = TensorOperand(wide, where) + TensorOperand(low, where);
  const double below =
      draw.dtype == DType::F64
          ? std::nextafter(high, low)
          : static_cast<double>(std::nextafter(static_cast<float>(high), static_cast<float>(low)));
  return minimum(TensorOperand(moved, where), TensorOperand(below, where));
}

Tensor normal(const RankKey& key, const Sizes& sizes, const Draw& draw, Line where) {
  const NamedCall call("normal");
  need_drawn_dtype("normal", draw.dtype, where);
  const Bits bits("normal", key, sizes, draw.part, where);
  const Tensor square =
      TensorOperand(log(bits.inner(draw.dtype), where), where) * TensorOperand(-2.0, where);
  const Tensor angle = TensorOperand(bits.second_unit(draw.dtype), where) *
                       TensorOperand(2 * std::numbers::pi, where);
  return TensorOperand(sqrt(square, where), where) * TensorOperand(cos(angle, where), where);
}

Tensor normal(const RankKey& key, const Sizes& sizes, double mean, double deviation,
              const Draw& draw, Line where) {
  const NamedCall call("normal");
  const TensorOperand unit(normal(key, sizes, draw, where), where);
  if (deviation == 0) return full_like(unit.tensor, mean, where);
  // A division is never fused with the addition.
  const Tensor wide = deviation == 1 ? unit.tensor : unit / TensorOperand(1 / deviation, where);
  return TensorOperand(wide, where) + TensorOperand(mean, where);
}

Tensor bernoulli(const RankKey& key, const Sizes& sizes, const FloatOperand& p, const Part& part,
                 Line where) {
  const NamedCall call("bernoulli");
  need_probability("bernoulli", p.value, where);
  const Bits bits("bernoulli", key, sizes, part, where);
  return TensorOperand(bits.unit(DType::F32), where) < TensorOperand(p.value, where);
}

Tensor bernoulli(const RankKey& key, const Tensor& p, const Part& part, Line where) {
  const NamedCall call("bernoulli");
  (void)trace_of("bernoulli", std::vector{p}, where);
  if (is_low(p)) return bernoulli(key, widened(p, where), part, where);
  const DType dtype = p.dtype(where);
  if (dtype != DType::F32 && dtype != DType::F64)
    refuse(
        where, "bernoulli",
        fmt::format("takes probabilities of f32 and f64, not {}; cast() them", dtype_name(dtype)));
  const Bits bits("bernoulli", key, p.sizes(where), part, where);
  return TensorOperand(bits.unit(dtype), where) < TensorOperand(p, where);
}

Tensor randint(const RankKey& key, const Sizes& sizes, const SymInt& low, const SymInt& high,
               const Part& part, Line where) {
  const NamedCall call("randint");
  const Bits bits("randint", key, sizes, part, where);
  Trace& trace = *key.tensor().trace();
  for (const SymInt* bound : {&low, &high}) trace.need_own(*bound, where);
  const shapes::Expr count = high.expr() - low.expr();
  if (count.constant().value_or(1) < 1)
    refuse(where, "randint",
           fmt::format("takes low < high, not {} and {}", low.text(), high.text()));
  trace.env().check(shapes::greater_equal(count, 1), trace.here(where), "randint needs low < high");
  const Tensor most = scalar(trace, std::numeric_limits<std::int64_t>::max(), where);
  const Tensor number = TensorOperand(bits.all(), where) & TensorOperand(most, where);
  const Tensor within = TensorOperand(number, where) %
                        TensorOperand(scalar(trace, trace.integer(count), where), where);
  return TensorOperand(within, where) + TensorOperand(scalar(trace, low, where), where);
}

Tensor permutation(const RankKey& key, const SymInt& n, Line where) {
  return argsort(Bits("permutation", key, {n}, {}, where).all(), where);
}

Tensor categorical(const RankKey& key, const Tensor& logits, std::int64_t dim, const Part& part,
                   Line where) {
  (void)trace_of("categorical", std::vector{logits}, where);
  if (is_low(logits)) return categorical(key, widened(logits, where), dim, part, where);
  const DType dtype = logits.dtype(where);
  if (dtype != DType::F32 && dtype != DType::F64)
    refuse(where, "categorical",
           fmt::format("takes logits of f32 and f64, not {}; cast() them", dtype_name(dtype)));
  (void)checked_dim("categorical", logits, dim, where);
  const Bits bits("categorical", key, logits.sizes(where), part, where);
  const Tensor waiting = neg(log1p(neg(bits.inner(dtype), where), where), where);
  const Tensor noise = neg(log(waiting, where), where);
  return argmax(TensorOperand(logits, where) + TensorOperand(noise, where), dim, Keep::Drop, where);
}

Tensor dropout(const Tensor& x, const FloatOperand& p, const RankKey& key, const Part& part,
               Line where) {
  (void)trace_of("dropout", std::vector{x}, where);
  if (!is_float(x.dtype(where)))
    refuse(where, "dropout", "takes floating-point numbers; cast first");
  if (is_low(x)) return cast(dropout(widened(x, where), p, key, part, where), x.dtype(), where);
  need_probability("dropout", p.value, where);
  const Bits bits("dropout", key, x.sizes(where), part, where);
  const Tensor kept = TensorOperand(bits.unit(DType::F32), where) >= TensorOperand(p.value, where);
  const Tensor none = zeros_like(x, where);
  const Tensor factor =
      lockstep::worker::where(kept, scale_of_kept(p.value, where), TensorOperand(none, where));
  return TensorOperand(x, where) * TensorOperand(factor, where);
}

}  // namespace lockstep::worker
