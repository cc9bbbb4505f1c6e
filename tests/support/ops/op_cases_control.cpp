#include "op_case_lists.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::test {
namespace {

using ControlFill = CaseInput::Fill;
using Several = std::vector<Tensor>;

Several squared(const Several& x) { return {x[0] * x[0] + x[1]}; }
Several curved(const Several& x) { return {tanh(x[0]) * x[1]}; }

void add_branches(std::vector<OpCase>& cases) {
  const std::vector<CaseInput> two{{ControlFill::Signed, {kN, kM}}, {ControlFill::Signed, {kM}}};
  cases.push_back({"cond", two, [](Trace&, const Several& x) {
                     const Tensor scale = sum(exp(x[1]));
                     const auto scaled = [&](const Several& y) {
                       return Several{sin(y[0] * scale)};
                     };
                     const auto plain = [](const Several& y) { return Several{y[0] * 2.0}; };
                     const Tensor taken = cond(sum(x[0]) > -1e3, scaled, plain, {x[0]})[0];
                     return taken + cond(sum(x[0]) > 1e3, scaled, plain, {x[0]})[0];
                   }});
  cases.push_back({"cond_within_cond", two, [](Trace&, const Several& x) {
                     const auto inner = [&](const Several& y) {
                       return cond(sum(y[0]) > -1e3, squared, curved, {y[0], x[1]});
                     };
                     return cond(sum(x[1]) > 1e3, curved, inner, {x[0], x[1]})[0];
                   }});
  cases.push_back({"call", two, [](Trace&, const Several& x) {
                     const TracedFunction f = allow_in_graph(squared);
                     return f({f({x[0], x[1]})[0], x[1]})[0] + allow_in_graph(curved)(x)[0];
                   }});
}

void add_loops(std::vector<OpCase>& cases) {
  cases.push_back(
      {"scan",
       {{ControlFill::Signed, {kM}}, {ControlFill::Signed, {kN, kM}}, {ControlFill::Signed, {kM}}},
       [](Trace&, const Several& x) {
         const auto [carry, ys] = scan(
             [&](const Several& c, const Several& row) {
               const Tensor next = tanh(c[0] * x[2] + row[0]);
               return Scanned{{next, c[1] + 1}, {next * row[0], c[0]}};
             },
             {x[0], scalar(*x[0].trace(), 0)}, {x[1]});
         return ys[0] * 3.0 + ys[1] * ys[1] + carry[0] * cast(carry[1], DType::F64);
       }});
  cases.push_back({"scan_within_scan",
                   {{ControlFill::Signed, {kM}}, {ControlFill::Signed, {kN, kM}}},
                   [](Trace&, const Several& x) {
                     // For each row, an inner scan sums over its pairs with all rows.
                     const auto pairs = [&](const Several& c, const Several& row) {
                       const auto inner = scan(
                           [&](const Several& total, const Several& other) {
                             return Scanned{{total[0] + sin(row[0] * other[0])}, {}};
                           },
                           {c[0]}, {x[1]});
                       return Scanned{{inner.carry[0] * 0.5}, {inner.carry[0] * row[0]}};
                     };
                     const auto [carry, ys] = scan(pairs, {x[0]}, {x[1]});
                     return ys[0] + carry[0];
                   }});
  cases.push_back(
      {"scan_with_cond",
       {{ControlFill::Signed, {kM}}, {ControlFill::Signed, {kN, kM}}},
       [](Trace&, const Several& x) {
         const auto [carry, ys] = scan(
             [](const Several& c, const Several& row) {
               const Tensor next = cond(c[1] % 2 == 0, squared, curved, {row[0], c[0]})[0];
               return Scanned{{next, c[1] + 1}, {next}};
             },
             {x[0], scalar(*x[0].trace(), 0)}, {x[1]});
         return ys[0] + carry[0];
       }});
  cases.push_back({"grad_within_scan",
                   {{ControlFill::Signed, {kM}}, {ControlFill::Signed, {kN, kM}}},
                   [](Trace&, const Several& x) {
                     // Gradient descent steps, and the gradient through them.
                     const auto step = [](const Several& c, const Several& row) {
                       const Tensor loss = sum(cos(c[0] * row[0]));
                       return Scanned{{c[0] - grad(loss, {c[0]})[0] * 0.1}, {}};
                     };
                     return scan(step, {x[0]}, {x[1]}).carry[0] + sum(x[1], {0});
                   }});
  cases.push_back({"while_loop", {{ControlFill::Signed, {kN, kM}}}, [](Trace&, const Several& x) {
                     const Several twice =
                         while_loop([](const Several& c) { return c[1] < 3; },
                                    [](const Several& c) {
                                      return Several{c[0] * 2.0, c[1] + 1};
                                    },
                                    {ones_like(detach(x[0])), scalar(*x[0].trace(), 0)});
                     return x[0] * detach(twice[0]);
                   }});
}

void add_joint(std::vector<OpCase>& cases) {
  cases.push_back({"cond_with_all_reduce",
                   {{ControlFill::Signed, {kM}}},
                   [](Trace&, const Several& x) {
                     const Tensor way = all_reduce(scalar(*x[0].trace(), 1)) > 1;
                     return cond(
                         way, [](const Several& y) { return Several{all_reduce(y[0] * y[0])}; },
                         [](const Several& y) { return y; }, {x[0]})[0];
                   },
                   2});
  cases.push_back({"scan_with_all_reduce",
                   {{ControlFill::Signed, {kM}}, {ControlFill::Signed, {fixed(3), kM}}},
                   [](Trace&, const Several& x) {
                     const auto [carry, ys] = scan(
                         [](const Several& c, const Several& row) {
                           const Tensor next = all_reduce(sin(c[0] + row[0])) * 0.5;
                           return Scanned{{next}, {next * row[0]}};
                         },
                         {x[0]}, {x[1]});
                     return ys[0] + carry[0];
                   },
                   2});
}

}  // namespace

void add_control(std::vector<OpCase>& cases) {
  add_branches(cases);
  add_loops(cases);
  add_joint(cases);
}

}  // namespace lockstep::worker::test
