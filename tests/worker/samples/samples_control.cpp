// Control flow: the functions of torch's own samples, and some more.
#include "op_samples.h"

#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/product_ops.h>

namespace lockstep::worker::samples {
namespace {

using Several = std::vector<Tensor>;

Several branch(In x, Arguments n) {
  return cond(
      sum(x[0]) > n.at(0).get<double>(), [](const Several& y) { return Several{cos(y[0])}; },
      [](const Several& y) { return Several{sin(y[0])}; }, {x[0]});
}
/// Both ways use a tensor of the code around them.
Several branch_with_weight(In x, Arguments) {
  return cond(
      x[2],
      [&](const Several& y) {
        return Several{tanh(y[0] * x[1]), y[0] + 1.0};
      },
      [&](const Several& y) {
        return Several{exp(y[0]) * x[1], y[0] * x[1]};
      },
      {x[0]});
}

/// Sizes that the samples have equal, and that a scan has to know to be.
void check_equal(const std::vector<SymInt>& sizes) {
  for (const SymInt& size : sizes) check(size == sizes[0]);
}

Several products(In x, Arguments) {
  check_equal({x[0].size(0), x[0].size(1), x[1].size(1), x[1].size(2)});
  const Scanned all = scan(
      [](const Several& c, const Several& row) {
        return Scanned{{matmul(c[0], row[0]) + row[0]}, {c[0]}};
      },
      {x[0]}, {x[1]});
  return {all.carry[0], all.ys[0]};
}
/// h = tanh(h w + row), with each h.
Several recurrence(In x, Arguments) {
  check_equal({x[0].size(0), x[1].size(1), x[2].size(0), x[2].size(1)});
  const Scanned all = scan(
      [&](const Several& c, const Several& row) {
        const Tensor next = tanh(mv(x[2], c[0]) + row[0]);
        return Scanned{{next}, {next * row[0]}};
      },
      {x[0]}, {x[1]});
  return {all.carry[0], all.ys[0]};
}

Several countdown(In x, Arguments) {
  return while_loop([](const Several& c) { return c[0] > 0; },
                    [](const Several& c) {
                      return Several{c[0] - 1, cos(c[1])};
                    },
                    {x[0], x[1]});
}
/// Newton's steps to the root, until they stand still to 1e-9; with their number.
Several roots(In x, Arguments) {
  const auto off = [&](const Tensor& y) { return amax(abs(y * y - x[0])); };
  return while_loop([&](const Several& c) { return (off(c[0]) > 1e-9) & (c[1] < 50); },
                    [&](const Several& c) {
                      return Several{(c[0] + x[0] / c[0]) * 0.5, c[1] + 1};
                    },
                    {ones_like(x[0]), scalar(*x[0].trace(), 0)});
}

}  // namespace

Functions control() {
  return {{"cond", branch},          {"cond_with_weight", branch_with_weight},
          {"scan", products},        {"recurrence", recurrence},
          {"while_loop", countdown}, {"roots", roots}};
}

}  // namespace lockstep::worker::samples
