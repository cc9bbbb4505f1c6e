// Optimisers of f16 and bf16 parameters: they go the way of f32 parameters, which are their
// masters.
#include <functional>

#include "traced_run.h"

#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/layers/optimisers.h>

namespace lockstep::worker::master_weights_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;

std::vector<Array> arrays_of(const std::vector<Tensor>& tensors) {
  std::vector<Array> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.array());
  return out;
}
std::vector<Tensor> tensors_from(const std::vector<Array>& arrays) {
  return {arrays.begin(), arrays.end()};
}
Array as(DType dtype, const Array& from) {
  Array out(dtype, from.sizes());
  for (I i = 0; i < out.elements(); ++i) out.set(i, from.at(i));
  return out;
}
/// A matrix of bf16, a vector of f16, and one of f32; or all of f32 with the same numbers.
std::vector<Array> three(std::uint64_t seed, I n, bool wide) {
  const std::vector<Array> low{as(DType::BF16, random_f64(seed, {n, 3})),
                               as(DType::F16, random_f64(seed + 1, {n})),
                               as(DType::F32, random_f64(seed + 2, {n}))};
  if (!wide) return low;
  return {as(DType::F32, low[0]), as(DType::F32, low[1]), low[2]};
}
std::vector<Tensor> part(In x, std::size_t from, std::size_t count) {
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(from);
  return {at, at + static_cast<std::ptrdiff_t>(count)};
}
std::vector<Array> joined(const std::vector<std::vector<Array>>& lists) {
  std::vector<Array> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

/// Six steps of one optimiser on both kinds of parameters, bit for bit.
template <class State>
void expect_the_way_of_f32(
    const std::function<State(const std::vector<Tensor>&)>& start,
    const std::function<Updated<State>(const std::vector<Tensor>&, const std::vector<Tensor>&,
                                       const State&)>& step) {
  for (const bool wide : {false, true})
    ASSERT_EQ(start(tensors_from(three(1, 5, wide))).masters.size(), wide ? 0U : 2U);
  const auto program_of = [&](bool wide) {
    const State begun = start(tensors_from(three(1, 5, wide)));
    const std::size_t states = tensors_of(begun).size();
    return TracedRun(joined({three(1, 5, wide), arrays_of(tensors_of(begun)), three(9, 5, wide)}),
                     [=](Trace&, In x) {
                       const State state = with_tensors(begun, part(x, 3, states));
                       const Updated<State> out =
                           step(part(x, 0, 3), part(x, 3 + states, 3), state);
                       std::vector<Tensor> all = out.params;
                       for (const Tensor& tensor : tensors_of(out.state)) all.push_back(tensor);
                       return all;
                     },
                     {3, 1});
  };
  TracedRun low = program_of(false), wide = program_of(true);
  for (const I n : {0, 1, 2, 5}) {
    const auto begun = [&](bool is_wide) {
      const std::vector<Array> params = three(1, n, is_wide);
      return joined({params, arrays_of(tensors_of(start(tensors_from(params))))});
    };
    std::vector<Array> mine = begun(false), theirs = begun(true);
    for (std::uint64_t s = 0; s < 6; ++s) {
      mine = low.run(joined({mine, three(20 + 3 * s, n, false)}), 1e-5);
      theirs = wide.run(joined({theirs, three(20 + 3 * s, n, true)}), 1e-5);
      const std::vector<Array> masters(mine.end() - 2, mine.end());
      EXPECT_TRUE(same(masters, {theirs[0], theirs[1]}, 0)) << "step " << s << " n " << n;
      EXPECT_TRUE(same({mine[0], mine[1], mine[2]},
                       {as(DType::BF16, theirs[0]), as(DType::F16, theirs[1]), theirs[2]}, 0));
      EXPECT_TRUE(same({mine.begin() + 3, mine.end() - 2}, {theirs.begin() + 3, theirs.end()}, 0))
          << "state, step " << s;
    }
  }
}

TEST(MasterWeights, SgdGoesTheWayOfF32) {
  const SgdOptions options{.rate = 1e-4, .momentum = 0.9, .weight_decay = 0.1};
  expect_the_way_of_f32<SgdState>([&](In params) { return sgd_start(params, options); },
                                  [&](In params, In grads, const SgdState& state) {
                                    return sgd(params, grads, state, options);
                                  });
}

TEST(MasterWeights, AdamAndAdamwGoTheWayOfF32) {
  for (const auto f : {adam, adamw})
    expect_the_way_of_f32<AdamState>(
        [](In params) { return adam_start(params); },
        [&](In params, In grads, const AdamState& state) {
          return f(params, grads, state, {.rate = 1e-4, .weight_decay = 0.1}, Line::current());
        });
}

TEST(MasterWeights, AdafactorGoesTheWayOfF32) {
  expect_the_way_of_f32<AdafactorState>([](In params) { return adafactor_start(params); },
                                        [&](In params, In grads, const AdafactorState& state) {
                                          return adafactor(params, grads, state, {.rate = 1e-4});
                                        });
}

// Half of a last place of 1 is 0.004: without masters no step would be seen, ever.
TEST(MasterWeights, SmallStepsAddUp) {
  const std::vector<Tensor> params{Array::of(DType::BF16, {2}, std::vector<double>{1, -1})};
  const Array ones = Array::of(DType::BF16, {2}, std::vector<double>{1, 1});
  const SgdState begun = sgd_start(params);
  TracedRun program(
      {params[0].array(), begun.step.array(), begun.masters[0].array(), ones}, [](Trace&, In x) {
        const auto [after, state] = sgd({x[0]}, {x[3]}, {x[1], {}, {x[2]}}, {.rate = 1e-3});
        return std::vector{after[0], state.step, state.masters[0]};
      });
  std::vector<Array> carried{params[0].array(), begun.step.array(), begun.masters[0].array()};
  for (int step = 0; step < 100; ++step) carried = program.run(joined({carried, {ones}}), 1e-6);
  EXPECT_NEAR(carried[0].at(0), 0.9, 2e-3);
  EXPECT_NEAR(carried[0].at(1), -1.1, 4e-3);
}

TEST(MasterWeights, StateOfOtherParametersIsRefused) {
  const std::vector<Array> like{Array::zeros(DType::BF16, {3}), Array::zeros(DType::I64, {})};
  const auto body = [](Trace&, In x) { return sgd({x[0]}, {x[0]}, SgdState{x[1], {}, {}}).params; };
  EXPECT_EQ(refusal(like, body),
            "sgd: 1 parameters of f16 or bf16, but 0 masters; begin with sgd_start() of these "
            "parameters");
}

}  // namespace
}  // namespace lockstep::worker::master_weights_test
