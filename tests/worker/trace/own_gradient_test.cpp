// Functions with a gradient of the user's.
#include "compiled_graph.h"
#include "tracing.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::own_gradient_test {
namespace {

using test::dynamic;
using In = std::vector<Tensor>;

Result<Graph> traced(const std::function<void(Trace&, const Tensor&, const Tensor&)>& body) {
  const Decision decision = test::DecisionBuilder()
                                .tensor("x", DType::F64, {dynamic(3, 0)})
                                .tensor("y", DType::F64, {dynamic(3, 0)})
                                .get();
  return trace(test::setup(decision),
               [&](Trace& t) { body(t, t.tensor_input(0), t.tensor_input(1)); });
}

std::vector<Array> run(const std::function<void(Trace&, const Tensor&, const Tensor&)>& body) {
  const Result<Graph> graph = traced(body);
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  if (!graph) return {};
  const Inputs inputs{{"x", Array::of(DType::F64, {3}, std::vector{0.4, 1.5, -2.2})},
                      {"y", Array::of(DType::F64, {3}, std::vector{2.0, 3.0, 5.0})}};
  EXPECT_TRUE(agree(*compile(*graph), inputs, 1e-12));
  return run_interpreted(*graph, inputs).value();
}

std::vector<double> values(const Array& array) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < array.elements(); ++i) out.push_back(array.at(i));
  return out;
}
using Numbers = std::vector<double>;

TEST(OwnGradient, StraightThroughARounding_WhoseOwnIsZero) {
  const auto rounded = custom_backward([](const In& x) { return In{round(x[0])}; },
                                       [](const BackwardCall& call) { return call.grads; });
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor& y) {
    const Tensor z = rounded({x})[0];
    t.output("z", z);
    t.output("own", grad(sum(z * y), {x})[0]);
    t.output("of the op", grad(sum(round(x) * y), {x})[0]);
  });
  EXPECT_EQ(values(out[0]), (Numbers{0, 2, -2}));
  EXPECT_EQ(values(out[1]), (Numbers{2, 3, 5}));
  EXPECT_EQ(values(out[2]), (Numbers{0, 0, 0})) << "equal values made elsewhere keep their own";
}

TEST(OwnGradient, ComesPastIntsAndWhatIsDetached) {
  const auto steps = custom_backward(
      [](const In& x) { return In{detach(cast(cast(x[0], DType::I64), DType::F64))}; },
      [](const BackwardCall& call) { return In{call.grads[0] * 2.0}; });
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor&) {
    t.output("g", grad(sum(steps({x * 3.0})[0]), {x})[0]);
  });
  EXPECT_EQ(values(out[0]), (Numbers{6, 6, 6}));
}

TEST(OwnGradient, SeveralOutputs_AreOneCall_WithZerosForTheUnused) {
  int calls = 0;
  const auto both = custom_backward(
      [](const In& x) {
        return In{x[0] + x[1], x[0] * x[1]};
      },
      [&](const BackwardCall& call) {
        ++calls;
        return In{call.grads[0] + call.grads[1] * 10.0, call.inputs[0] + call.outputs[1] * 0.0};
      });
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor& y) {
    const In z = both({x, y});
    const In grads = grad(sum(z[0]) + sum(z[1] * 3.0), {x, y});
    t.output("by x", grads[0]);
    t.output("by y", grads[1]);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(out[0]), (Numbers{31, 31, 31}));
  EXPECT_EQ(values(out[1]), (Numbers{0.4, 1.5, -2.2}));
  for (const std::size_t used : {std::size_t{0}, std::size_t{1}}) {
    const auto one = run([&](Trace& t, const Tensor& x, const Tensor& y) {
      t.output("g", grad(sum(both({x, y})[used]), {x})[0]);
    });
    EXPECT_EQ(values(one[0]), used == 0 ? (Numbers{1, 1, 1}) : (Numbers{10, 10, 10}));
  }
}

TEST(OwnGradient, OneValueTwice_IsTwoOutputs) {
  const auto twice = custom_backward(
      [](const In& x) {
        const Tensor y = x[0] * 2.0;
        return In{y, y};
      },
      [](const BackwardCall& call) { return In{(call.grads[0] + call.grads[1] * 10.0) * 2.0}; });
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor&) {
    const In z = twice({x});
    t.output("g", grad(sum(z[0]) + sum(z[1]), {x})[0]);
  });
  EXPECT_EQ(values(out[0]), (Numbers{22, 22, 22}));
}

TEST(OwnGradient, TwoFunctionsOverOneValue_KeepTheirs) {
  const auto times = [](double factor) {
    return custom_backward(
        [](const In& x) { return In{x[0] * 2.0}; },
        [factor](const BackwardCall& call) { return In{call.grads[0] * factor}; });
  };
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor&) {
    const Tensor a = times(5)({x})[0], b = times(7)({x})[0];
    t.output("g", grad(sum(a + b * 100.0), {x})[0]);
    t.output("of the first", grad(sum(a), {x})[0]);
  });
  EXPECT_EQ(values(out[0]), (Numbers{705, 705, 705}));
  EXPECT_EQ(values(out[1]), (Numbers{5, 5, 5}));
}

TEST(OwnGradient, AnInputWithoutOne_GetsZeros) {
  const auto first = custom_backward([](const In& x) { return In{x[0] * x[1]}; },
                                     [](const BackwardCall& call) {
                                       return In{call.grads[0] * call.inputs[1], Tensor()};
                                     });
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor& y) {
    const In grads = grad(sum(first({x, y})[0]), {x, y});
    t.output("by x", grads[0]);
    t.output("by y", grads[1]);
  });
  EXPECT_EQ(values(out[0]), (Numbers{2, 3, 5}));
  EXPECT_EQ(values(out[1]), (Numbers{0, 0, 0}));
}

TEST(OwnGradient, WhereNoInputWantsOne_IsNotAskedFor) {
  int calls = 0;
  const auto doubled = custom_backward([](const In& x) { return In{x[0] * 2.0}; },
                                       [&](const BackwardCall& call) {
                                         ++calls;
                                         return In{call.grads[0] * 2.0};
                                       });
  const auto out = run([&](Trace& t, const Tensor& x, const Tensor& y) {
    t.output("by y", grad(sum(doubled({x})[0] * y), {y})[0]);
  });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(values(out[0]), (Numbers{0.8, 3, -4.4}));
}

TEST(OwnGradient, WhatDoesNotFit_IsRefusedWithTheLineOfTheCall) {
  const auto message = [](const BackwardFunction& backward) {
    const auto f = custom_backward([](const In& x) { return In{exp(x[0])}; }, backward);
    const Result<Graph> graph = traced([&](Trace& t, const Tensor& x, const Tensor&) {
      t.output("g", grad(sum(f({x})[0]), {x})[0]);
    });
    return graph ? std::string() : graph.error().text();
  };
  const std::string none = message([](const BackwardCall&) { return In{}; });
  EXPECT_NE(none.find("0 gradients for 1 inputs"), std::string::npos) << none;
  EXPECT_NE(none.find("own_gradient_test.cpp:"), std::string::npos) << none;
  const std::string other =
      message([](const BackwardCall& call) { return In{sum(call.grads[0])}; });
  EXPECT_NE(other.find("gradient 0 is f64[], its input f64[s0]"), std::string::npos) << other;
}

}  // namespace
}  // namespace lockstep::worker::own_gradient_test
