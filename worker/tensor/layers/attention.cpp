#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/operands.h>
#include <lockstep/worker/tensor/trace/autocast.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Softmax over the last dim; zeros without gradient where all scores are minus infinity.
Tensor masked_softmax(const Tensor& scores, const Line& where) {
  const At at{where};
  const Tensor best = amax(detach(scores, where), {-1}, Keep::Keep, where);
  const Tensor blind = at(best) == at(-kInfinity);
  const Tensor safe = lockstep::worker::where(blind, at(0.0), at(scores));
  return lockstep::worker::where(blind, at(0.0), at(softmax(safe, -1, where)));
}

Tensor masked(const Tensor& scores, const Tensor& mask, const Line& where) {
  const At at{where};
  if (mask.dtype() != DType::Bool) return at(scores) + at(mask);
  return lockstep::worker::where(mask, at(scores), at(-kInfinity));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, Line where) {
  const NamedCall call("scaled_dot_product_attention");
  const At at{where};
  constexpr std::string_view kWhat = "scaled_dot_product_attention";
  const std::shared_ptr<Trace> trace = trace_of(kWhat, std::vector{query, key, value}, where);
  for (const Tensor& x : {query, key, value}) {
    need_floats(kWhat, x, where);
    if (x.ndim() < 2)
      refuse(where, kWhat,
             fmt::format("takes tensors [.., rows, width], not {}", meta_text(meta_of(x))));
  }
  if (options.is_causal && !options.mask.empty())
    refuse(where, kWhat, "is_causal is a mask, so give it or a mask");
  // As in torch's kernels: scores and their softmax are f32, and only the result is rounded.
  if (is_low(query) && is_low(key) && is_low(value)) {
    const Autocast off(query, DType::F32, where);
    AttentionOptions wide = options;
    wide.mask = widened(options.mask, where);
    return cast(scaled_dot_product_attention(widened(query, where), widened(key, where),
                                             widened(value, where), wide, where),
                query.dtype(), where);
  }
  const TensorOperand width(scalar(*trace, query.size(-1, where), where), where);
  const Tensor wide = widened(query, where);
  const TensorOperand scale = options.scale
                                  ? at(*options.scale)
                                  : at(rsqrt(cast(width.tensor, wide.dtype(), where), where));
  const Tensor scaled = cast(at(wide) * scale, query.dtype(), where);
  const Tensor scores = matmul(scaled, transpose(key, -2, -1, where), where);
  if (options.is_causal) {
    const Sizes sizes{scores.size(-2, where), scores.size(-1, where)};
    const Tensor row = unsqueeze(arange(*trace, sizes[0], where), 1, where);
    const Tensor seen = at(row) >= at(arange(*trace, sizes[1], where));
    return matmul(softmax(masked(scores, seen, where), -1, where), value, where);
  }
  const Tensor parts = options.mask.empty()
                           ? softmax(scores, -1, where)
                           : masked_softmax(masked(scores, options.mask, where), where);
  return matmul(parts, value, where);
}

Jagged jagged_attention(const Jagged& query, const Tensor& key, const Tensor& value,
                        const JaggedAttentionOptions& options, Line where) {
  const NamedCall call("jagged_attention");
  constexpr std::string_view kWhat = "jagged_attention";
  (void)trace_of(kWhat, std::vector{query.values, query.lengths, key, value}, where);
  const int ndim = query.values.ndim();
  if ((ndim != 2 && ndim != 3) || key.ndim() != ndim || value.ndim() != ndim)
    refuse(where, kWhat,
           fmt::format("takes three tensors [rows, width] or [rows, heads, width], not {}, {} and "
                       "{}",
                       meta_text(meta_of(query.values)), meta_text(meta_of(key)),
                       meta_text(meta_of(value))));
  const SymInt rows = query.values.size(0, where),
               most = options.at_most ? *options.at_most : longest(query, where);
  const auto dense = [&](const Tensor& x) {
    check(x.size(0, where) == rows, "jagged_attention needs a key and a value for each row", where);
    const Tensor padded = to_padded(with_values(query, x), most, 0, where);
    return ndim == 2 ? padded : transpose(padded, 1, 2, where);
  };
  AttentionOptions inner{.is_causal = options.is_causal, .scale = options.scale};
  // With is_causal no mask is needed: padding is behind every row of its segment.
  if (!options.is_causal) {
    const Tensor real = padding_mask(query.lengths, most, where);
    inner.mask = unsqueeze(ndim == 2 ? real : unsqueeze(real, 1, where), -2, where);
  }
  const Tensor out =
      scaled_dot_product_attention(dense(query.values), dense(key), dense(value), inner, where);
  return from_padded(ndim == 2 ? out : transpose(out, 1, 2, where), query.lengths, rows, where);
}

Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& options,
                        Line where) {
  const NamedCall call("rotary_embedding");
  const At at{where};
  constexpr std::string_view kWhat = "rotary_embedding";
  const std::shared_ptr<Trace> trace = trace_of(kWhat, std::vector{x, positions}, where);
  need_floats(kWhat, x, where);
  if (is_low(x))
    return cast(rotary_embedding(widened(x, where), positions, options, where), x.dtype(), where);
  if (x.ndim() == 0 || positions.ndim() >= x.ndim())
    refuse(where, kWhat,
           fmt::format("takes x [.., L, D] and positions of fewer dims, not {} and {}",
                       meta_text(meta_of(x)), meta_text(meta_of(positions))));
  const Expr width = meta_of(x).sizes.back();
  if (width.constant().value_or(0) % 2 != 0)
    refuse(where, kWhat, fmt::format("the last dim has pairs, and {} is odd", width.text()));
  trace->env().check(shapes::equal(mod(width, 2), 0), trace->here(where),
                     "rotary_embedding needs an even last dim");
  const SymInt half = trace->integer(floor_div(width, 2));

  const Tensor place = at(cast(arange(*trace, half, where), DType::F64, where)) /
                       at(cast(scalar(*trace, half, where), DType::F64, where));
  const Tensor frequency = exp(at(place) * at(-std::log(options.base)), where);
  const Tensor angle = at(unsqueeze(cast(positions, DType::F64, where), -1, where)) * at(frequency);
  const TensorOperand cosine(cast(cos(angle, where), x.dtype(), where), where),
      sine(cast(sin(angle, where), x.dtype(), where), where);

  // Elements of a pair are along dim `dim`: [.., 2, D/2], or [.., D/2, 2].
  const bool split_half = options.form == RotaryForm::HalfSplit;
  std::vector<Expr> sizes = meta_of(x).sizes;
  sizes.pop_back();
  const std::int64_t dim = split_half ? -2 : -1;
  Sizes paired;
  for (const Expr& size : sizes) paired.push_back(trace->integer(size));
  paired.push_back(split_half ? SymInt(2) : half);
  paired.push_back(split_half ? half : SymInt(2));
  const Tensor pairs = reshape(x, paired, where);
  const auto side = [&](std::int64_t i) {
    const Tensor one = slice(pairs, dim, i, 1, where);
    return at(squeeze(one, dim, where));
  };
  const TensorOperand first = side(0), second = side(1);
  const Tensor turned_first = at(first * cosine) - at(second * sine);
  const Tensor turned_second = at(second * cosine) + at(first * sine);
  const Tensor both =
      cat({unsqueeze(turned_first, dim, where), unsqueeze(turned_second, dim, where)}, dim, where);
  return reshape(both, x.sizes(where), where);
}

}  // namespace lockstep::worker
