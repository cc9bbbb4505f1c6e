#include <limits>

#include "op_case_lists.h"

#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker::test {
namespace {

using OrderFill = CaseInput::Fill;
using Operands = const std::vector<Tensor>&;

Tensor as_f64(const Tensor& x) { return cast(x, DType::F64); }

void add_more_reductions(std::vector<OpCase>& cases) {
  cases.push_back({"prod", {{OrderFill::Signed, {kN, fixed(3), kM}}}, [](Trace&, Operands x) {
                     return prod(x[0], {0, -1}) + prod(x[0]) * 2.0;
                   }});
  cases.push_back({"var", {{OrderFill::Signed, {kN, fixed(4), kM}}}, [](Trace&, Operands x) {
                     const Spread wide = std_mean(x[0], {1}, 0.5, Keep::Keep);
                     return (x[0] - wide.mean) / wide.value + var(x[0], {1}, 2, Keep::Keep);
                   }});
  cases.push_back({"var_of_all", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     const Spread wide = var_mean(x[0]);
                     return x[0] * wide.value + wide.mean + stddev(x[0], {0}, 0);
                   }});
  cases.push_back({"norm", {{OrderFill::Signed, {kN, fixed(3), kM}}}, [](Trace&, Operands x) {
                     const double infinity = std::numeric_limits<double>::infinity();
                     Tensor all = norm(x[0], 2, {1}) + norm(x[0]);
                     for (const double p : {0.0, 0.5, 1.0, 3.0, -1.0, infinity, -infinity})
                       all = all + norm(x[0], p, {1}) * (1 + 1 / (2 + p * p));
                     return all;
                   }});
  cases.push_back({"argmin", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     const Tensor places = argmin(x[0], 1) + argmin(cast(x[0] * 9.0, DType::I8), 1);
                     const Tensor above =
                         count_nonzero(relu(x[0]), {1}) + count_nonzero(x[0] > 0.5, {1});
                     return as_f64(places + above) + sum(x[0], {1});
                   }});
}

void add_scans(std::vector<OpCase>& cases) {
  cases.push_back(
      {"cumsum_dims", {{OrderFill::Signed, {kN, fixed(3), kM}}}, [](Trace&, Operands x) {
         return cumsum(exp(x[0]), 1) * cumsum(x[0], 0, Direction::Reverse) + cumsum(x[0], -1);
       }});
  cases.push_back({"cumprod", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     return cumprod(x[0], 0) + cumprod(x[0], -1, Direction::Reverse) * 3.0;
                   }});
  cases.push_back({"cummax", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     const Taken up = cummax(x[0], 0), back = cummax(x[0], 1, Direction::Reverse);
                     return exp(up.values) * as_f64(up.indices + 1) +
                            back.values * as_f64(back.indices + 2);
                   }});
  cases.push_back({"cummin", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     const Taken down = cummin(x[0], -1),
                                 ints = cummin(cast(x[0] * 5.0, DType::I32), 0, Direction::Reverse);
                     return exp(down.values) * as_f64(down.indices + 1) +
                            x[0] * as_f64(ints.values) + as_f64(ints.indices);
                   }});
  cases.push_back({"logcumsumexp", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     return logcumsumexp(x[0] * 3.0, 1) -
                            logcumsumexp(x[0], 0, Direction::Reverse) * 2.0;
                   }});
  cases.push_back({"diff", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     return exp(diff(x[0], 0)) * 2.0;
                   }});
}

void add_sorting(std::vector<OpCase>& cases) {
  cases.push_back({"sort", {{OrderFill::Signed, {kN, kM}}}, [](Trace&, Operands x) {
                     const Taken up = sort(x[0]), down = sort(exp(x[0]), 0, true);
                     return up.values * as_f64(up.indices + 1) +
                            down.values * as_f64(down.indices + 2);
                   }});
  cases.push_back({"topk", {{OrderFill::Signed, {kN, fixed(5), kM}}}, [](Trace&, Operands x) {
                     const Taken most = topk(x[0], 2, 1), least = topk(x[0], 2, 1, false);
                     const Taken half = topk(x[0], x[0].size(2) / 2);
                     return exp(most.values) * as_f64(least.indices + 1) - least.values +
                            sum(half.values, {1, 2}, Keep::Keep);
                   }});
  cases.push_back({"kthvalue", {{OrderFill::Signed, {kN, fixed(4), kM}}}, [](Trace&, Operands x) {
                     const Taken third = kthvalue(x[0], 3, 1), middle = median(x[0], 1);
                     return exp(third.values) * as_f64(middle.indices + 1) +
                            middle.values * as_f64(third.indices + 1) +
                            sum(median(x[0], 1, Keep::Keep).values, {1});
                   }});
  cases.push_back({"searchsorted",
                   {{OrderFill::Signed, {kN, kM}}, {OrderFill::Signed, {kN, fixed(3)}}},
                   [](Trace&, Operands x) {
                     const Tensor order = sort(x[0], 1).values;
                     const Tensor at = searchsorted(order, x[1]) + searchsorted(order, x[1], true);
                     return x[1] * as_f64(at + bucketize(x[1], sort(sum(x[0], {0})).values));
                   }});
  cases.push_back(
      {"bincount", {{OrderFill::Signed, {kN}}, {OrderFill::Order, {kN}}}, [](Trace&, Operands x) {
         const Tensor known = bincount(x[1] / 2, x[0].size(0) + 1, exp(x[0]));
         const Tensor read = bincount(x[1] / 2), weighed = bincount(x[1] / 2, {}, x[0]);
         return sum(known) * 2.0 + known * known + sum(as_f64(read) * weighed);
       }});
}

}  // namespace

void add_order(std::vector<OpCase>& cases) {
  add_more_reductions(cases);
  add_scans(cases);
  add_sorting(cases);
}

}  // namespace lockstep::worker::test
