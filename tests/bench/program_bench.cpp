// What compiled programs cost: kernels of usual shapes, and the overhead of a step.
#include <algorithm>
#include <array>
#include <vector>

#include "compiled_body.h"
#include "ops/composed_attention.h"
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <lockstep/collectives/base/half.h>
#include <lockstep/collectives/base/half_bits.h>
#include <lockstep/worker/compile/run/matmul.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/bounded/bounded.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/pooling.h>

namespace {

using namespace lockstep::worker;  // NOLINT: a bench reads like a user's program
using lockstep::DType;

/// `body` on one input x [rows, width] of `dtype`, rows a symbol. `counted`: masks keep their
/// counts.
void run(benchmark::State& state, std::int64_t rows, std::int64_t width,
         const std::function<Tensor(Tensor)>& body, bool counted = false, DType dtype = DType::F32,
         int threads = 1) {
  const auto made = lockstep::bench::CompiledBody::make(
      {Array::zeros(dtype, {rows, width})}, [&](std::span<const Tensor> x) { return body(x[0]); },
      counted);
  if (!made) return state.SkipWithError(made.error().message.c_str());
  (*made)->share(threads);
  if (const auto first = (*made)->run(); !first)
    return state.SkipWithError(first.error().message.c_str());
  for (auto _ : state) benchmark::DoNotOptimize((*made)->run().has_value());
  state.counters["elements/s"] = benchmark::Counter(static_cast<double>(rows * width),
                                                    benchmark::Counter::kIsIterationInvariantRate);
  state.counters["steps"] = static_cast<double>((*made)->steps());
}

void elementwise_chain(benchmark::State& state) {
  run(state, 1000, 257, [](Tensor x) { return tanh(x * 2.0 + 1.0) * sigmoid(x); });
}
BENCHMARK(elementwise_chain);

/// Kernels that range(0) threads share.
void shared(benchmark::State& state, const std::function<Tensor(Tensor)>& body) {
  run(state, 2048, 1024, body, false, DType::F32, static_cast<int>(state.range(0)));
}
#define SHARED(name, ...)                                               \
  BENCHMARK_CAPTURE(shared, name, [](Tensor x) { return __VA_ARGS__; }) \
      ->Arg(1)                                                          \
      ->Arg(2)                                                          \
      ->UseRealTime()
SHARED(copy, x * 2.0);
SHARED(chain, tanh(x * 2.0 + 1.0) * sigmoid(x));
SHARED(softmax, softmax(x, 1));
SHARED(columns, sum(x* x, {0}));
SHARED(everything, sum(x* x));
SHARED(sorted, argsort(x));
SHARED(product, matmul(x, slice(x, 0, 0, 1024)));

/// Attention of 16 heads of width 64 over range(0) queries and as many keys, f32, with its
/// gradients if `backward`: as one op, or made of others. Its floating-point operations are those
/// of two products, and of five more for the gradients.
void attention(benchmark::State& state, bool composed, bool backward) {
  const std::int64_t length = state.range(0);
  const Array x = Array::zeros(DType::F32, {16, length, 64});
  const auto body = [&](std::span<const Tensor> in) {
    const Tensor y = composed
                         ? test::composed_attention(in[0], in[1], in[2], Tensor(), false, 0.125)
                         : scaled_dot_product_attention(in[0], in[1], in[2]);
    if (!backward) return y;
    const std::vector<Tensor> by = grad(sum(y * y), {in[0], in[1], in[2]});
    return by[0] + by[1] + by[2];
  };
  const auto made = lockstep::bench::CompiledBody::make({x, x, x}, body);
  if (!made) return state.SkipWithError(made.error().message.c_str());
  if (const auto first = (*made)->run(); !first)
    return state.SkipWithError(first.error().message.c_str());
  for (auto _ : state) benchmark::DoNotOptimize((*made)->run().has_value());
  const double products = backward ? 7 : 2;
  state.counters["flop/s"] = benchmark::Counter(
      products * 2 * 16 * 64 * static_cast<double>(length) * static_cast<double>(length),
      benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = static_cast<double>((*made)->bytes());
}
BENCHMARK_CAPTURE(attention, one_op, false, false)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attention, composed, true, false)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attention, one_op_backward, false, true)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attention, composed_backward, true, true)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

void softmax_rows(benchmark::State& state) {
  run(state, 1000, 257, [](Tensor x) { return softmax(x, 1); });
}
BENCHMARK(softmax_rows);

void sum_over_rows(benchmark::State& state) {
  run(state, 1000, 257, [](Tensor x) { return sum(x * x, {0}); });
}
BENCHMARK(sum_over_rows);

/// A loss over the rows that a mask chooses, one of range(0), and its gradient.
void masked_loss(benchmark::State& state, bool counted) {
  const std::int64_t every = state.range(0);
  const auto body = [&](Tensor x) {
    const Tensor rows = x[iota({x.size(0)}, 0) % every == 0];
    const Tensor loss = sum(log1p(rows * rows)) + 0.5 * mean(exp(rows));
    return grad(loss, {x})[0];
  };
  run(state, 20000, 16, body, counted);
}
BENCHMARK_CAPTURE(masked_loss, where, false)->Arg(1)->Arg(2)->Arg(10)->Arg(100);
BENCHMARK_CAPTURE(masked_loss, counted, true)->Arg(1)->Arg(2)->Arg(10)->Arg(100);

/// Reads the rows whose indices nonzero tells, one of range(0), and a loss over them with its
/// gradient: as many rows as there are, or a bound of range(1) times as many.
void indexed_loss(benchmark::State& state, bool bounded) {
  constexpr std::int64_t kRows = 20000;
  const std::int64_t every = state.range(0);
  const auto body = [&](Tensor x) {
    const Tensor mask = iota({x.size(0)}, 0) % every == 0;
    if (!bounded) {
      const Tensor rows = index_select(x, 0, select(nonzero(mask), 1, 0));
      return grad(sum(log1p(rows * rows)), {x})[0];
    }
    const Bounded at = nonzero(mask, at_most(kRows / every * state.range(1)));
    const Tensor rows = index_select(x, 0, select(at.values, 1, 0));
    const Tensor there = cast(unsqueeze(present(at), 1), DType::F32);
    return grad(sum(log1p(rows * rows) * there), {x})[0];
  };
  run(state, kRows, 16, body, !bounded);
}
BENCHMARK_CAPTURE(indexed_loss, counted, false)->ArgsProduct({{2, 10, 100}, {1}});
BENCHMARK_CAPTURE(indexed_loss, bounded, true)->ArgsProduct({{2, 10, 100}, {1, 2}});

void square_product(benchmark::State& state) {
  run(state, 1000, 64, [](Tensor x) { return matmul(matmul(x, transpose(x, 0, 1)), x); });
}
BENCHMARK(square_product);

/// The same product of 1,000 x 512 in another dtype, cast to it once.
void large_product(benchmark::State& state, DType dtype) {
  run(state, 1000, 512, [&](Tensor x) {
    const Tensor a = cast(x, dtype);
    return cast(matmul(matmul(a, transpose(a, 0, 1)), a), DType::F32);
  });
}
BENCHMARK_CAPTURE(large_product, f32, DType::F32);
BENCHMARK_CAPTURE(large_product, bf16, DType::BF16);
BENCHMARK_CAPTURE(large_product, f16, DType::F16);

/// An elementwise kernel of the dtype: three ops, each rounded to it.
void elementwise_of(benchmark::State& state, DType dtype) {
  run(
      state, 1000, 257, [](Tensor x) { return (x * 0.5 + x) * x; }, false, dtype);
}
BENCHMARK_CAPTURE(elementwise_of, f32, DType::F32);
BENCHMARK_CAPTURE(elementwise_of, bf16, DType::BF16);
BENCHMARK_CAPTURE(elementwise_of, f16, DType::F16);

/// Halves as floats and back, range(0) of them: by this processor's instructions, or by arithmetic
/// on bits. Bytes are those read and written.
void halves(benchmark::State& state, DType dtype, bool widen, bool portable) {
  const std::int64_t count = state.range(0);
  std::vector<std::uint16_t> low(static_cast<std::size_t>(count), 0x3c00);
  std::vector<float> wide(static_cast<std::size_t>(count), 1.5F);
  const auto plainly = [&](auto convert, const auto& from, auto& to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = convert(from[i]);
  };
  for (auto _ : state) {
    if (!portable && widen) lockstep::widen_halves(dtype, low.data(), wide.data(), count);
    if (!portable && !widen) lockstep::narrow_floats(dtype, wide.data(), low.data(), count);
    if (portable && widen && dtype == DType::F16) plainly(lockstep::f32_of_f16, low, wide);
    if (portable && widen && dtype == DType::BF16) plainly(lockstep::f32_of_bf16, low, wide);
    if (portable && !widen && dtype == DType::F16) plainly(lockstep::f16_of_f32, wide, low);
    if (portable && !widen && dtype == DType::BF16) plainly(lockstep::bf16_of_f32, wide, low);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * count * 6);
}
constexpr std::int64_t kInCache = 1 << 14, kInMemory = 1 << 24;
BENCHMARK_CAPTURE(halves, widen_f16, DType::F16, true, false)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, widen_f16_portable, DType::F16, true, true)
    ->Arg(kInCache)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, narrow_f16, DType::F16, false, false)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, narrow_f16_portable, DType::F16, false, true)
    ->Arg(kInCache)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, widen_bf16, DType::BF16, true, false)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, widen_bf16_portable, DType::BF16, true, true)
    ->Arg(kInCache)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, narrow_bf16, DType::BF16, false, false)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK_CAPTURE(halves, narrow_bf16_portable, DType::BF16, false, true)
    ->Arg(kInCache)
    ->Arg(kInMemory);

// Images of 16 channels, 32 x 32, of which there are `rows`; windows of 3 x 3.
constexpr std::int64_t kImages = 16, kIn = 16, kOut = 32, kSide = 32;
Tensor images(const Tensor& x) { return reshape(x, {x.size(0), kIn, kSide, kSide}); }
Tensor weight(const Tensor& x) { return full(*x.trace(), {kOut, kIn, 3, 3}, 0.5, DType::F32); }
Tensor depthwise(const Tensor& x) { return full(*x.trace(), {kIn, 1, 3, 3}, 0.5, DType::F32); }

void conv2d_images(benchmark::State& state) {
  run(state, kImages, kIn * kSide * kSide,
      [](Tensor x) { return conv2d(images(x), weight(x), {}, {.padding = {1}}); });
}
BENCHMARK(conv2d_images);

void conv2d_gradients(benchmark::State& state) {
  run(state, kImages, kIn * kSide * kSide, [](Tensor x) {
    const Tensor w = weight(x);
    const Tensor y = conv2d(images(x), w, {}, {.padding = {1}});
    const auto grads = grad(sum(y * y), {x, w});
    return sum(grads[0], {0}) + sum(grads[1]);
  });
}
BENCHMARK(conv2d_gradients);

void conv2d_depthwise(benchmark::State& state) {
  run(state, kImages, kIn * kSide * kSide, [](Tensor x) {
    return conv2d(images(x), depthwise(x), {}, {.padding = {1}, .groups = kIn});
  });
}
BENCHMARK(conv2d_depthwise);

/// The peer: the definition, its innermost loop over a row.
void conv2d_plain_loops(benchmark::State& state) {
  constexpr std::int64_t kPadded = kSide + 2;
  std::vector<float> x(kImages * kIn * kPadded * kPadded, 1), w(kOut * kIn * 9, 0.5F),
      y(kImages * kOut * kSide * kSide);
  for (auto _ : state) {
    for (std::int64_t n = 0; n < kImages; ++n)
      for (std::int64_t o = 0; o < kOut; ++o) {
        float* out = &y[static_cast<std::size_t>((n * kOut + o) * kSide * kSide)];
        std::fill(out, out + kSide * kSide, 0.0F);
        for (std::int64_t k = 0; k < kIn * 9; ++k) {
          const float by = w[static_cast<std::size_t>(o * kIn * 9 + k)];
          const float* in = &x[static_cast<std::size_t>((n * kIn + k / 9) * kPadded * kPadded +
                                                        k % 9 / 3 * kPadded + k % 3)];
          for (std::int64_t i = 0; i < kSide; ++i)
            for (std::int64_t j = 0; j < kSide; ++j) out[i * kSide + j] += by * in[i * kPadded + j];
        }
      }
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(conv2d_plain_loops);

void max_pool2d_images(benchmark::State& state) {
  run(state, kImages, kIn * kSide * kSide, [](Tensor x) {
    return max_pool2d(images(x), {.kernel = {3}, .stride = {2}, .padding = {1}});
  });
}
BENCHMARK(max_pool2d_images);

void max_pool2d_gradient(benchmark::State& state) {
  run(state, kImages, kIn * kSide * kSide, [](Tensor x) {
    const Tensor y = max_pool2d(images(x), {.kernel = {3}, .stride = {2}, .padding = {1}});
    return grad(sum(y * y), {x})[0];
  });
}
BENCHMARK(max_pool2d_gradient);

void avg_pool2d_images(benchmark::State& state) {
  run(state, kImages, kIn * kSide * kSide,
      [](Tensor x) { return avg_pool2d(images(x), {.kernel = {2}}); });
}
BENCHMARK(avg_pool2d_images);

/// Fifty steps on next to nothing: time per step is the runtime's own.
void step_overhead(benchmark::State& state) {
  run(state, 1, 8, [](Tensor x) {
    for (int i = 0; i < 50; ++i) x = x + sum(x, {1}, Keep::Keep);
    return x;
  });
}
BENCHMARK(step_overhead);

/// [m, k] times [k, n], or times the transpose of [n, k]: m, k, n, whether transposed, and whether
/// by the BLAS alone.
void product(benchmark::State& state) {
  const auto m = state.range(0), k = state.range(1), n = state.range(2);
  const bool lies = state.range(3) != 0;
  const auto floats = [](std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count), 0.5F);
  };
  const std::vector<float> a = floats(m * k), b = floats(k * n);
  std::vector<float> out = floats(m * n);
  const auto whole = [](std::int64_t x) { return static_cast<int>(x); };
  Threads one;
  multiply(one, DType::F32, {a.data()}, {b.data(), lies}, out.data(), 1, m, k, n);
  for (auto _ : state) {
    if (state.range(4) != 0)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, lies ? CblasTrans : CblasNoTrans, whole(m), whole(n),
                  whole(k), 1, a.data(), whole(k), b.data(), whole(lies ? k : n), 0, out.data(),
                  whole(n));
    else
      multiply(one, DType::F32, {a.data()}, {b.data(), lies}, out.data(), 1, m, k, n);
    benchmark::ClobberMemory();
  }
  state.counters["flop/s"] = benchmark::Counter(static_cast<double>(2 * m * k * n),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(product)->Apply([](auto* bench) {
  for (const auto& [m, k, n, lies] : {std::array<std::int64_t, 4>{3, 64, 256, 0},
                                      {16, 256, 64, 0},
                                      {48, 64, 256, 0},
                                      {128, 64, 64, 0},
                                      {32, 256, 1024, 1},
                                      {4096, 576, 128, 1}})
    for (const std::int64_t blas : {0, 1}) bench->Args({m, k, n, lies, blas});
});

}  // namespace

BENCHMARK_MAIN();
