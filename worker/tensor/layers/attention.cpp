#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/operands.h>
#include <lockstep/worker/tensor/trace/autocast.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

constexpr std::string_view kAttention = "scaled_dot_product_attention";

void need_equal(Trace& trace, const Expr& a, const Expr& b, std::string_view which,
                const Line& where) {
  if ((a - b).constant().value_or(0) != 0)
    refuse(where, kAttention, fmt::format("{} {} and {} do not fit", which, a.text(), b.text()));
  trace.env().check(shapes::equal(a, b), trace.here(where),
                    fmt::format("{} needs equal {}", kAttention, which));
}

std::vector<Expr> joined(std::vector<Expr> sizes, std::initializer_list<Expr> more) {
  sizes.insert(sizes.end(), more);
  return sizes;
}
std::vector<Expr> without_last(std::vector<Expr> sizes, std::ptrdiff_t count) {
  sizes.resize(sizes.size() - std::min(sizes.size(), static_cast<std::size_t>(count)));
  return sizes;
}

/// The operands of the op, with the dims that it wants (graph.h), and the sizes of its result.
class AttentionOperands {
 public:
  AttentionOperands(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionOptions& options, const Line& where)
      : trace_(*query.trace()), where_(where), gqa_(options.enable_gqa) {
    const std::vector<Expr> q = meta_of(query).sizes, k = meta_of(key).sizes,
                            v = meta_of(value).sizes;
    const Expr width = q.back(), value_width = v.back(), keys = *(k.end() - 2);
    need_equal(trace_, width, k.back(), "widths", where);
    need_equal(trace_, keys, *(v.end() - 2), "numbers of keys", where);
    const std::vector<Expr> scores = set_sizes(q, k, v, options.mask, keys);
    const Expr queries = scores[0];
    const std::vector<Expr> of_keys =
        gqa_ ? joined(leading_, {key_heads_}) : leading_;  // groups share these
    std::vector<Expr> grouped = of_keys;
    grouped.push_back(gqa_ ? group_ : Expr(1));
    result_ = joined(gqa_ ? joined(leading_, {heads_}) : leading_, {queries, value_width});
    operands_ = {view(expanded(query, joined(without_last(result_, 2), {queries, width}), where),
                      joined(grouped, {queries, width}), where),
                 expanded(key, joined(of_keys, {keys, width}), where),
                 expanded(value, joined(of_keys, {keys, value_width}), where)};
    if (!options.mask.empty()) add_mask(options.mask, joined(grouped, {queries, keys}));
  }

  /// The attention itself.
  [[nodiscard]] Tensor result(bool is_causal) const {
    const Tensor made = emit(Op::Attention, operands_, Node{.ints = {is_causal ? 1 : 0}}, where_);
    Node first{.exprs = {Expr(0)}, .ints = {made.ndim() - 1}, .meta = meta_of(made)};
    first.meta.sizes.back() = result_.back();
    return view(emit(Op::Slice, {made}, std::move(first), where_), result_, where_);
  }

 private:
  /// Sets the sizes of leading dims. Returns the numbers of queries and keys.
  std::vector<Expr> set_sizes(const std::vector<Expr>& q, const std::vector<Expr>& k,
                              const std::vector<Expr>& v, const Tensor& mask, const Expr& keys) {
    const std::ptrdiff_t last = gqa_ ? 3 : 2;
    const std::vector<Expr> m = mask.empty() ? std::vector<Expr>() : meta_of(mask).sizes;
    leading_ = broadcast_sizes(kAttention, trace_,
                               {without_last(q, last), without_last(k, last), without_last(v, last),
                                without_last(m, last)},
                               where_);
    if (gqa_) {
      heads_ = *(q.end() - 3), key_heads_ = *(k.end() - 3);
      need_equal(trace_, key_heads_, *(v.end() - 3), "numbers of heads of keys", where_);
      if (key_heads_.constant() == 0 || (mod(heads_, key_heads_).constant().value_or(0) != 0))
        refuse(where_, kAttention,
               fmt::format("{} heads of queries share no {} heads of keys evenly", heads_.text(),
                           key_heads_.text()));
      trace_.env().check(
          shapes::equal(mod(heads_, key_heads_), 0), trace_.here(where_),
          fmt::format("{} needs as many heads of queries for each head of keys", kAttention));
      group_ = trace_.env().simplify(floor_div(heads_, key_heads_));
    }
    std::vector<Expr> scores{*(q.end() - 2), keys};
    if (!m.empty()) {
      const std::vector<Expr> last_two(m.end() - std::min<std::ptrdiff_t>(2, std::ssize(m)),
                                       m.end());
      scores = broadcast_sizes(kAttention, trace_, {scores, last_two}, where_);
      need_equal(trace_, scores[1], keys, "numbers of keys", where_);
    }
    return scores;
  }

  /// Adds the mask with as many dims as the scores, of which those of size 1 stay so.
  void add_mask(Tensor mask, const std::vector<Expr>& scores) {
    std::vector<Expr> sizes = meta_of(mask).sizes;
    const std::size_t dims = scores.size() - 1;  // without that of the groups
    sizes.insert(sizes.begin(), dims - sizes.size(), Expr(1));
    const std::size_t head = dims - 3;  // gqa: the dim of the heads
    bool of_heads = false;
    if (gqa_) {
      const std::vector<Expr> both =
          broadcast_sizes(kAttention, trace_, {{heads_}, {sizes[head]}}, where_);
      need_equal(trace_, both[0], heads_, "numbers of heads", where_);
      mask = view(mask, sizes_now(mask, dims), where_);
      sizes = meta_of(mask).sizes;
      of_heads = sizes[head] != Expr(1);
      sizes[head] = of_heads ? key_heads_ : Expr(1);
    }
    sizes.insert(sizes.end() - 2, of_heads ? group_ : Expr(1));
    for (std::size_t d = 0; d < scores.size(); ++d)
      if (sizes[d] != Expr(1)) sizes[d] = scores[d];  // known to be equal
    operands_.push_back(view(mask, sizes, where_));
  }
  [[nodiscard]] static std::vector<Expr> sizes_now(const Tensor& x, std::size_t dims) {
    std::vector<Expr> sizes = meta_of(x).sizes;
    sizes.insert(sizes.begin(), dims - sizes.size(), Expr(1));
    return sizes;
  }

  Trace& trace_;
  Line where_;
  bool gqa_;
  std::vector<Expr> leading_, result_;  // leading_: without that of the heads, if gqa
  Expr heads_ = 1, key_heads_ = 1, group_ = 1;
  std::vector<Tensor> operands_;
};

/// The mask as the op takes it: bools, or floats of `dtype`.
Tensor fitting_mask(const Tensor& mask, const Tensor& query, const Line& where) {
  if (mask.empty() || mask.dtype() == DType::Bool) return mask;
  if (!TensorOperand(mask, where).has_dtype() || query.trace()->autocast())
    return cast(mask, query.dtype(), where);
  return of_one_dtype(kAttention, {query, widened(mask, where)}, where)[1];
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, Line where) {
  const NamedCall call("scaled_dot_product_attention");
  const At at{where};
  const std::shared_ptr<Trace> trace = trace_of(kAttention, std::vector{query, key, value}, where);
  for (const Tensor& x : {query, key, value}) {
    need_floats(kAttention, x, where);
    if (x.ndim() < (options.enable_gqa ? 3 : 2))
      refuse(where, kAttention,
             fmt::format("takes tensors [..,{} rows, width], not {}",
                         options.enable_gqa ? " heads," : "", meta_text(meta_of(x))));
  }
  if (options.is_causal && !options.mask.empty())
    refuse(where, kAttention, "is_causal is a mask, so give it or a mask");
  std::vector<Tensor> parts = of_one_dtype(kAttention, {query, key, value}, where);
  if (const auto low = trace->autocast(); low && parts[0].dtype() == DType::F32)
    for (Tensor& part : parts) part = cast(part, *low, where);
  // As in torch's kernels: scores and their softmax are f32, and only the result is rounded.
  if (is_low(parts[0])) {
    const Autocast off(query, DType::F32, where);
    const DType dtype = parts[0].dtype();
    AttentionOptions wide = options;
    wide.mask = widened(options.mask, where);
    for (Tensor& part : parts) part = widened(part, where);
    return cast(scaled_dot_product_attention(parts[0], parts[1], parts[2], wide, where), dtype,
                where);
  }
  const TensorOperand width(scalar(*trace, query.size(-1, where), where), where);
  const TensorOperand scale = options.scale
                                  ? at(*options.scale)
                                  : at(rsqrt(cast(width.tensor, parts[0].dtype(), where), where));
  AttentionOptions fitting = options;
  fitting.mask = fitting_mask(options.mask, parts[0], where);
  return AttentionOperands(at(parts[0]) * scale, parts[1], parts[2], fitting, where)
      .result(options.is_causal);
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
