// Reductions, views, and what chooses elements.
#include "op_samples.h"

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::samples {
namespace {

Keep keep_of(Arguments keep) { return keep.get<bool>() ? Keep::Keep : Keep::Drop; }
Sizes sizes_of(Arguments list) {
  Sizes out;
  for (const auto& size : list) out.push_back(size.get<std::int64_t>());
  return out;
}
Tensor flat(const Tensor& x) { return reshape(x, {-1}); }
/// torch adds ints up in i64, and takes exponentials of them in f32.
Tensor countable(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::I64); }
Tensor fraction(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::F32); }
Tensor truth(const Tensor& x) { return x.dtype() == DType::Bool ? x : x != 0; }

/// Pairs of counts from the last dim on; negative ones cut off. Not-zero values by a mask.
Tensor padded(const Tensor& x, Arguments counts, double value) {
  Tensor out = x, inside = cast(full_like(cast(x, DType::U8), 1), DType::Bool);
  for (std::size_t i = 0; i < counts.size(); i += 2) {
    const std::int64_t dim = -1 - static_cast<std::int64_t>(i / 2);
    const auto before = counts[i].get<std::int64_t>(), after = counts[i + 1].get<std::int64_t>();
    for (Tensor* part : {&out, &inside}) {
      const std::int64_t start = std::max<std::int64_t>(0, -before);
      *part = slice(*part, dim, start, part->size(dim) - start - std::max<std::int64_t>(0, -after));
      *part = pad(*part, dim, std::max<std::int64_t>(0, before), std::max<std::int64_t>(0, after));
    }
  }
  if (value == 0) return out;
  return where(inside, out, cast(full_like(cast(out, DType::F64), value), out.dtype()));
}

Tensor without_ones(const Tensor& x) {
  Tensor out = x;
  for (std::int64_t d = x.ndim() - 1; d >= 0; --d)
    if (x.size(d).expr() == shapes::Expr(1)) out = squeeze(out, d);
  return out;
}

}  // namespace

// clang-format off
#define REDUCTION(name, of) {#name, [](In x, Arguments n) { return std::vector{name(of(x[0]), n[0].get<Dims>(), keep_of(n[1]))}; }}
Functions basics() {
  return {
    REDUCTION(sum, countable), REDUCTION(mean, ), REDUCTION(amax, ), REDUCTION(amin, ), REDUCTION(any, truth),
    REDUCTION(all, truth),
    {"argmax", [](In x, Arguments n) {
       return std::vector{n[0].is_null() ? argmax(flat(x[0]), 0) : argmax(x[0], n[0], keep_of(n[1]))}; }},
    {"softmax", [](In x, Arguments n) { return std::vector{softmax(fraction(x[0]), n[0])}; }},
    {"log_softmax", [](In x, Arguments n) { return std::vector{log_softmax(fraction(x[0]), n[0])}; }},
    {"logsumexp", [](In x, Arguments n) { return std::vector{logsumexp(x[0], n[0].get<Dims>(), keep_of(n[1]))}; }},
    {"reshape", [](In x, Arguments n) { return std::vector{reshape(x[0], sizes_of(n[0]))}; }},
    {"permute", [](In x, Arguments n) { return std::vector{permute(x[0], n[0].get<Dims>())}; }},
    {"transpose", [](In x, Arguments n) { return std::vector{transpose(x[0], n[0], n[1])}; }},
    {"expand", [](In x, Arguments n) { return std::vector{expand(x[0], sizes_of(n[0]))}; }},
    {"unsqueeze", [](In x, Arguments n) { return std::vector{unsqueeze(x[0], n[0])}; }},
    {"squeeze", [](In x, Arguments n) { return std::vector{n[0].is_null() ? without_ones(x[0]) : squeeze(x[0], n[0])}; }},
    {"cat", [](In x, Arguments n) { return std::vector{cat(x, n[0])}; }},
    {"split", [](In x, Arguments n) { return split(x[0], sizes_of(n[0]), n[1]); }},
    {"pad", [](In x, Arguments n) { return std::vector{padded(x[0], n[0], n[1])}; }},
    {"where", [](In x, Arguments n) {
       return std::vector{n.empty() ? where(x[0], x[1], x[2]) : where(x[0], x[1], n[0].get<double>())}; }},
    {"masked_select", [](In x, Arguments) { return std::vector{masked_select(x[0], x[1])}; }},
    {"nonzero", [](In x, Arguments) { return std::vector{nonzero(x[0])}; }},
    {"unique", [](In x, Arguments n) {
       const Unique all = n[2].is_null() ? unique(x[0]) : unique(x[0], n[2].get<std::int64_t>());
       std::vector<Tensor> results{all.values};
       if (n[0].get<bool>()) results.push_back(all.inverse);
       if (n[1].get<bool>()) results.push_back(all.counts);
       return results; }},
    {"repeat_interleave", [](In x, Arguments n) {
       const Tensor from = n[0].is_null() ? flat(x[0]) : x[0];
       const std::int64_t dim = n[0].is_null() ? 0 : n[0].get<std::int64_t>();
       return std::vector{n[1].is_null() ? repeat_interleave(from, x[1], dim)
                                         : repeat_interleave(from, SymInt(n[1].get<std::int64_t>()), dim)}; }},
  };
}
#undef REDUCTION
// clang-format on

}  // namespace lockstep::worker::samples
