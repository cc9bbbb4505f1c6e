#include "op_samples.h"

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker::samples {
namespace {

using Results = std::vector<Tensor>;

/// torch adds and multiplies ints and bools as i64.
Tensor widened(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::I64); }
Dims dims_of(Arguments dims) { return dims.get<Dims>(); }
Keep kept(Arguments keep) { return keep.get<bool>() ? Keep::Keep : Keep::Drop; }
/// JSON has no infinities.
double number_of(Arguments number) { return std::stod(number.get<std::string>()); }
Results single(const Tensor& x) { return {x}; }
Results both(const Spread& spread) { return {spread.value, spread.mean}; }
Results both(const Taken& taken) { return {taken.values, taken.indices}; }
/// Without the indices where torch may name others of equal elements.
Results taken(const Taken& all, Arguments ties) {
  return ties.get<bool>() ? Results{all.values} : both(all);
}

using Place = Tensor (*)(const Tensor&, std::int64_t, Keep, Line);
/// Without a dim, of all elements as one line.
Results placed(Place op, const Tensor& x, Arguments n) {
  if (n[0].is_null()) return {op(reshape(x, {-1}), 0, Keep::Drop, Line::current())};
  return {op(x, n[0].get<std::int64_t>(), kept(n[1]), Line::current())};
}

Results difference(In x, Arguments n) {
  Tensor y = x.size() > 1 ? cat(x, n[1].get<std::int64_t>()) : x[0];
  for (int k = 0; k < n[0].get<int>(); ++k) y = diff(y, n[1].get<std::int64_t>());
  return {y};
}

Results middle(In x, Arguments n) {
  if (n[0].is_null()) return {median(reshape(x[0], {-1}), 0).values};
  return taken(median(x[0], n[0].get<std::int64_t>(), kept(n[1])), n[2]);
}

}  // namespace

// clang-format off
#define REDUCTION(name, x0) {#name, [](In x, Arguments n) { return Results{name(x0, dims_of(n[0]), kept(n[1]))}; }}
#define SPREAD(name, results) {#name, [](In x, Arguments n) { \
    return results(name(x[0], dims_of(n[0]), n[1].get<double>(), kept(n[2]))); }}
#define SCAN(name, x0, results) {#name, [](In x, Arguments n) { return results(name(x0, n[0].get<std::int64_t>())); }}
Functions order() {
  return {
    REDUCTION(prod, widened(x[0])), REDUCTION(count_nonzero, x[0]),
    SPREAD(var, single), SPREAD(stddev, single), SPREAD(var_mean, both), SPREAD(std_mean, both),
    SCAN(cumsum, widened(x[0]), single), SCAN(cumprod, widened(x[0]), single), SCAN(logcumsumexp, x[0], single),
    SCAN(cummax, x[0], both), SCAN(cummin, x[0], both),
    {"norm", [](In x, Arguments n) { return Results{norm(x[0], number_of(n[0]), dims_of(n[1]), kept(n[2]))}; }},
    {"argmin", [](In x, Arguments n) { return placed(argmin, x[0], n); }},
    {"diff", difference},
    {"flip", [](In x, Arguments n) { return Results{flip(x[0], dims_of(n[0]))}; }},
    {"sort", [](In x, Arguments n) { return taken(sort(x[0], n[0].get<std::int64_t>(), n[1].get<bool>()), n[2]); }},
    {"argsort", [](In x, Arguments n) {
       return Results{argsort(x[0], n[0].get<std::int64_t>(), n[1].get<bool>())}; }},
    {"topk", [](In x, Arguments n) {
       return taken(topk(x[0], n[0].get<std::int64_t>(), n[1].get<std::int64_t>(), n[2].get<bool>()), n[3]); }},
    {"kthvalue", [](In x, Arguments n) {
       return taken(kthvalue(x[0], n[0].get<std::int64_t>(), n[1].get<std::int64_t>(), kept(n[2])), n[3]); }},
    {"median", middle},
    {"searchsorted", [](In x, Arguments n) { return Results{searchsorted(x[0], x[1], n[0].get<bool>())}; }},
    {"bucketize", [](In x, Arguments n) { return Results{bucketize(x[0], x[1], n[0].get<bool>())}; }},
    {"bincount", [](In x, Arguments n) {
       std::optional<SymInt> length;
       std::optional<Tensor> weights;
       if (!n[0].is_null()) length = n[0].get<std::int64_t>();
       if (x.size() > 1) weights = x[1];
       return Results{bincount(x[0], length, weights)}; }},
  };
}
// clang-format on

}  // namespace lockstep::worker::samples
