// Wrong numbers that users of other frameworks have reported in public: here each call is right,
// interpreted, compiled and on the emulated device. The table below says where, and what was wrong
// there; the calls and the right values, reckoned to 80 digits, are our own.
#include <limits>

#include "../run/order_cases.h"
#include "graph_builder.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>
#include <lockstep/worker/tensor/layers/pooling.h>

namespace lockstep::worker::reported_numbers_test {
namespace {

using order_cases::I;
using In = const std::vector<Tensor>&;

constexpr double inf = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType F32 = DType::F32, F64 = DType::F64, F16 = DType::F16, BF16 = DType::BF16,
                I64 = DType::I64, U8 = DType::U8;

struct Report {
  std::string_view of, fault;
  std::vector<Array> inputs;
  Tensor (*value)(In x);
  std::vector<double> right;
  double digits = 1;  // how many times the dtype's own rounding a value may be off
};

Array of(DType dtype, std::vector<I> sizes, const std::vector<double>& values) {
  Array out(dtype, std::move(sizes));
  for (I i = 0; i < out.elements(); ++i) out.set(i, values[static_cast<std::size_t>(i)]);
  return out;
}
Array row(DType dtype, const std::vector<double>& values) {
  return of(dtype, {static_cast<I>(values.size())}, values);
}
Array row(const std::vector<double>& values) { return row(F32, values); }
Array ints(const std::vector<double>& values) { return row(I64, values); }
Array all(DType dtype, std::vector<I> sizes, double value) {
  Array out(dtype, std::move(sizes));
  for (I i = 0; i < out.elements(); ++i) out.set(i, value);
  return out;
}
Array counted(I n) {
  Array out(F32, {n});
  for (I i = 0; i < n; ++i) out.set(i, static_cast<double>(i));
  return out;
}
Tensor slope(const Tensor& y, const Tensor& x) { return grad(sum(y), {x})[0]; }
Tensor last(const Tensor& x) { return slice(x, 0, x.size(0) - 1, 1); }

std::vector<Report> reports() {
  return {
      // losses and what they are made of
      {"pytorch/pytorch#11752",
       "equal huge logits: a loss of 0",
       {of(F32, {1, 2}, {1e8, 1e8}), ints({1})},
       [](In x) { return cross_entropy(x[0], x[1]); },
       {0.6931471805599453}},
      {"pytorch/pytorch#38839",
       "the normaliser is rounded away near -1e7",
       {of(F32, {1, 3}, {-9999999, -10000000, -10000001})},
       [](In x) { return log_softmax(x[0], 1); },
       {-0.4076059644443804, -1.4076059644443804, -2.4076059644443804},
       4},
      {"ml-explore/mlx#4169",
       "logsumexp taken from logits that are not shifted",
       {of(F32, {1, 2}, {1e20, 1e20})},
       [](In x) { return log_softmax(x[0], 1); },
       {-0.6931471805599453, -0.6931471805599453}},
      {"cornell-brg/hb-pytorch#61",
       "exp overflows for a single logit",
       {row({88.72284})},
       [](In x) { return log_softmax(x[0], 0); },
       {0}},
      {"google-deepmind/optax#1020",
       "the normaliser rounded to bf16 before it is taken away",
       {of(BF16, {1, 4}, {3.0, 3.5, 4.0, 4.5}), ints({2})},
       [](In x) { return cross_entropy(x[0], x[1]); },
       {1.2873386716983295},
       2},
      {"pytorch/pytorch#73205",
       "label smoothing counts ignored rows",
       {of(F32, {2, 2}, {1, 2, 3, 0.4}), ints({-100, 1})},
       [](In x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1}); },
       {2.5416446867173255},
       4},
      {"tinygrad/tinygrad#3570",
       "smoothing is not masked by ignore_index",
       {of(F32, {3, 3}, {1, 2, 0, 0, 0, 3, 2, 1, 1}), ints({1, 2, 0})},
       [](In x) { return cross_entropy(x[0], x[1], {.ignore_index = 2, .label_smoothing = 0.2}); },
       {0.6461920058548823},
       4},
      {"pytorch/pytorch#70348",
       "the mean over no target: not a number",
       {all(F32, {2, 3}, 0), ints({-100, -100})},
       [](In x) { return cross_entropy(x[0], x[1]); },
       {nan}},
      {"pytorch/pytorch#85791",
       "a f16 sum over positions overflows",
       {all(F16, {1, 2, 100'000}, 0), all(I64, {1, 100'000}, 0)},
       [](In x) { return cross_entropy(x[0], x[1]); },
       {0.6931471805599453}},
      {"pytorch/pytorch#31295",
       "the mean by class weights is over rows",
       {of(F32, {2, 3}, {-.5, -1.5, -2, -1, -.25, -3}), ints({0, 1}), row({.5, 2, 1})},
       [](In x) { return nll_loss(x[0], x[1], {.weight = x[2]}); },
       {0.3},
       2},
      {"huggingface/candle#2561",
       "the log of a sigmoid that is 0",
       {row({100, -200, 0}), row({0, 1, 1})},
       [](In x) {
         return binary_cross_entropy_with_logits(x[0], x[1], {.reduction = Reduction::None});
       },
       {100, 200, 0.6931471805599453}},
      {"pytorch/pytorch#96813",
       "beta 0 with equal inputs: 0/0 in the gradient",
       {row({1, 2, 3}), row({1, 0, 5})},
       [](In x) { return slope(smooth_l1_loss(x[0], x[1], Reduction::Sum, 0.0), x[0]); },
       {0, 1, -1}},
      // sums and means
      {"numpy/numpy#5681",
       "a running f32 sum of 1e7 numbers",
       {all(F32, {10'000'000}, 123.456)},
       [](In x) { return mean(x[0]); },
       {123.45600128173828}},
      {"numpy/numpy#29772",
       "a mean along dim 0, percents off",
       {all(F32, {5'000'000, 2}, 285.3)},
       [](In x) { return mean(x[0], {0}); },
       {285.29998779296875, 285.29998779296875}},
      {"numba/numba#10647",
       "the number of elements rounded to f32",
       {all(U8, {16'777'217}, 0)},
       [](In x) { return mean(where(iota(x[0].sizes(), 0) == 0, 16777215.0, cast(x[0], F32))); },
       {0.9999998807907176}},
      {"numpy/numpy#7933",
       "a f16 running sum stops",
       {all(F16, {5000, 2}, 0.5)},
       [](In x) { return mean(x[0], {0}); },
       {0.5, 0.5}},
      {"ml-explore/mlx#3909",
       "a bf16 sum stops at 256",
       {all(BF16, {70'000}, 1)},
       [](In x) { return mean(x[0]); },
       {1}},
      {"huggingface/candle#3718",
       "a f16 sum stops at 2048",
       {all(F16, {4096}, 1)},
       [](In x) { return sum(x[0]); },
       {4096}},
      {"pytorch/executorch#20090",
       "a bf16 denominator stops at 256",
       {all(BF16, {512}, 0)},
       [](In x) { return last(softmax(x[0], 0)); },
       {0.001953125}},
      {"tensorflow/tensorflow#23312",
       "prefix sums of f32 collect rounding errors",
       {counted(5794)},
       [](In x) { return last(cumsum(x[0], 0)); },
       {16782321}},
      {"numpy/numpy#24443",
       "a f16 prefix sum stops at 2048",
       {all(F16, {10'000}, 0.5)},
       [](In x) { return last(cumsum(x[0], 0)); },
       {5000}},
      {"huggingface/candle#1944",
       "matches counted in u8",
       {all(I64, {5000}, 1)},
       [](In x) { return count_nonzero(x[0] == 1, {0}); },
       {5000}},
      // variances and norms
      {"numpy/numpy#14691",
       "the deviation of equal columns is not 0",
       {all(F32, {1'000'000, 2}, 100)},
       [](In x) { return stddev(x[0], {0}); },
       {0, 0}},
      {"pytorch/pytorch#2470",
       "a variance in one pass cancels to 0",
       {row({2281.5, 2281.25})},
       [](In x) { return var(x[0], {0}); },
       {0.03125}},
      {"pytorch/pytorch#87171",
       "equal numbers have a deviation",
       {all(F32, {6}, 0.5250)},
       [](In x) { return stddev(x[0]); },
       {0}},
      {"pytorch/pytorch#180156",
       "squares of deviations overflow",
       {row({1e20, 1.1e20, .9e20, 1.05e20})},
       [](In x) { return stddev(x[0]); },
       {8.539126667842276e+18},
       40},
      {"tensorflow/tensorflow#115733",
       "squares overflow f16",
       {row(F16, {10000, -10000, 20000, -20000})},
       [](In x) { return stddev(x[0]); },
       {18257.418583505536}},
      {"pytorch/pytorch#197089",
       "squares of small deviations underflow",
       {row({1e-30, 3e-30, 7e-30})},
       [](In x) { return stddev(x[0]); },
       {3.0550504729916932e-30},
       4},
      {"pytorch/pytorch#29372",
       "the deviation of one element: not a number",
       {row({4})},
       [](In x) { return stddev(x[0]); },
       {nan}},
      {"microsoft/onnxruntime#28463",
       "E[x^2] - E[x]^2 below 0",
       {row({40000, 40001, 40002, 40003})},
       [](In x) { return layer_norm(x[0], 1); },
       {-1.3416354199689269, -0.447211806656309, 0.447211806656309, 1.3416354199689269},
       4},
      {"pytorch/pytorch#40302",
       "a small variance beside a large mean is 0",
       {of(F32, {1, 4}, {100.01, 99.99, 100.02, 99.98})},
       [](In x) { return group_norm(x[0], 1); },
       {0.6203607605677048, -0.6203607605677048, 1.2402483245217042, -1.2402483245217042},
       8},
      {"microsoft/onnxruntime#29034",
       "a f16 sum of squares overflows",
       {row(F16, {30000, -20000, 10000, 5000})},
       [](In x) { return rms_norm(x[0], 1, {}, 1e-5); },
       {1.5894388284780303, -1.0596258856520202, 0.5298129428260101, 0.26490647141300505}},
      {"pytorch/pytorch#41527",
       "eps below what f16 has: 0 * inf",
       {all(F16, {10}, 0)},
       [](In x) { return layer_norm(x[0], 1, {}, {}, 1e-12); },
       std::vector<double>(10, 0.0)},
      {"pytorch/pytorch#193006",
       "a sum of squares overflows, the norm does not",
       {row({1e20, 1, 1})},
       [](In x) { return norm(x[0]); },
       {1.0000000200408773e+20},
       2},
      {"numpy/numpy#31927",
       "f16 squares overflow",
       {row(F16, {600, 800})},
       [](In x) { return norm(x[0]); },
       {1000}},
      {"pytorch/pytorch#4320",
       "the gradient of a deviation of 0",
       {all(F32, {4}, 1)},
       [](In x) { return slope(stddev(x[0]), x[0]); },
       {0, 0, 0, 0}},
      {"pytorch/pytorch#2421",
       "the gradient of the norm at 0",
       {all(F32, {3}, 0)},
       [](In x) { return slope(norm(x[0]), x[0]); },
       {0, 0, 0}},
      {"pytorch/pytorch#48122",
       "the gradient of the largest, among equal ones",
       {row({9, 2, 9, -3, -9})},
       [](In x) { return slope(norm(x[0], inf), x[0]); },
       {1.0 / 3, 0, 1.0 / 3, 0, -1.0 / 3}},
      // exponentials
      {"tinygrad/tinygrad#17853",
       "-inf minus -inf",
       {row({-inf, -inf, 0, 1})},
       [](In x) { return logcumsumexp(x[0], 0); },
       {-inf, -inf, 0, 1.3132616875182228}},
      {"pytorch/pytorch#52947",
       "-inf twice is not a number, and what is none is lost",
       {row({-inf, -inf, 2, nan, 1})},
       [](In x) { return logcumsumexp(x[0], 0); },
       {-inf, -inf, 2, nan, nan}},
      {"tensorflow/tensorflow#115610",
       "inf minus inf behind an infinity",
       {row({inf, inf, 1})},
       [](In x) { return logcumsumexp(x[0], 0); },
       {inf, inf, inf}},
      {"ml-explore/mlx#576",
       "a row with inf: not a number",
       {of(F32, {2, 3}, {inf, 2, 3, 4, 5, 6})},
       [](In x) { return logsumexp(x[0], 1); },
       {inf, 6.407605964444381}},
      {"tinygrad/tinygrad#17822",
       "all -inf: not a number",
       {of(F32, {2, 2}, {1, 2, -inf, -inf})},
       [](In x) { return logsumexp(x[0], 1); },
       {2.313261687518223, -inf}},
      {"onnx/onnx-mlir#365",
       "no shift by the largest",
       {row({100, 101, 100.5})},
       [](In x) { return logsumexp(x[0], 0); },
       {101.68026967064174}},
      {"pytorch/pytorch#25110",
       "softmax of -inf alone: not a number",
       {row({-inf, -inf, -inf})},
       [](In x) { return softmax(x[0], 0); },
       {nan, nan, nan}},
      {"pyg-team/pytorch_geometric#2013",
       "the largest of all segments, and a low one underflows",
       {row({50, 51, -134.39, -122.01, -122.01}), ints({2, 3})},
       [](In x) {
         return slice(segment_softmax(Jagged{x[0], x[1]}).values, 0, 2, 3);
       },
       {2.1008962157373094e-6, 0.4999989495518921, 0.4999989495518921},
       4},
      {"pytorch/pytorch#195684",
       "1 - p where p is rounded to 1",
       {row(F64, {18, 0})},
       [](In x) { return slope(slice(softmax(x[0], 0), 0, 1, 1), x[0]); },
       {-1.5229979280808073e-8, 1.5229979280808073e-8},
       2},
      {"tinygrad/tinygrad#11564",
       "the gradient of softplus far out: not a number",
       {row({100, 1000})},
       [](In x) { return slope(softplus(x[0]), x[0]); },
       {1, 1}},
      {"tracel-ai/burn#5374",
       "exp overflows before the log",
       {row({100, 18, 3})},
       [](In x) { return softplus(x[0], 5); },
       {100, 18, 3.000000061180455}},
      {"openvinotoolkit/openvino#35931",
       "small results are 0",
       {row({-75, -20, 1})},
       [](In x) { return softplus(x[0]); },
       {2.6786369618080778e-33, 2.061153620314381e-09, 1.3132616875182228},
       2},
      {"ml-explore/mlx#1277",
       "-88 is 0 and 87 is not a number",
       {row({-88, -.1, .1, 87})},
       [](In x) { return expm1(x[0]); },
       {-1, -0.09516258331235325, 0.10517091972248063, 6.076030225056872e+37},
       2},
      {"huggingface/transformers#36995",
       "exp(x) - 1 near 0",
       {row({1e-8, -1e-10, 3e-5})},
       [](In x) { return expm1(x[0]); },
       {9.99999998922529e-09, -1.000000013301432e-10, 3.0000449246613553e-05},
       2},
      {"tensorflow/tensor2tensor#1424",
       "log(1 + x) near 0",
       {row({1e-8, -1e-10, 3e-5})},
       [](In x) { return log1p(x[0]); },
       {9.999999889225291e-09, -1.0000000134014319e-10, 2.9999549251158788e-05},
       2},
      {"ml-explore/mlx#574",
       "log1p of inf: not a number",
       {row({0, -.5, inf})},
       [](In x) { return log1p(x[0]); },
       {0, -0.6931471805599453, inf}},
      {"pytorch/pytorch#186286",
       "tanh by exponentials: not a number",
       {row({12, 20, 100})},
       [](In x) { return gelu(x[0]); },
       {12, 20, 100}},
      {"BVLC/caffe#1455",
       "tanh far out: not a number",
       {row({-1000, -50, 50, 1000})},
       [](In x) { return tanh(x[0]); },
       {-1, -1, 1, 1}},
      {"tensorflow/tensorflow#108592",
       "erf of inf: not a number",
       {row({inf, -inf})},
       [](In x) { return erf(x[0]); },
       {1, -1}},
      {"pytorch/pytorch#198183",
       "erf of small numbers",
       {row({1e-8, 1e-7, 1e-5, 1e-3})},
       [](In x) { return erf(x[0]); },
       {1.128379160237821e-08, 1.1283791802818577e-07, 1.1283791385526446e-05,
        1.1283788445643174e-03},
       2},
      {"tenstorrent/tt-metal#55318",
       "sine of large angles",
       {row({1e6, 1e7})},
       [](In x) { return sin(x[0]); },
       {-0.34999350217129294, 0.4205477931907825},
       2},
      // products
      {"pytorch/pytorch#773",
       "the gradient of a product as product / x",
       {row({2, 0, 5})},
       [](In x) { return slope(prod(x[0]), x[0]); },
       {0, 10, 0}},
      {"tensorflow/tensorflow#3862",
       "that of a cumulated product",
       {row({0, 2, 3})},
       [](In x) { return slope(cumprod(x[0], 0), x[0]); },
       {9, 0, 0}},
      // order, ties, not-a-number
      {"pytorch/pytorch#45084",
       "the median by the place of what is no number",
       {row({1, nan, 3, 2})},
       [](In x) { return median(x[0], 0).values; },
       {nan}},
      {"pytorch/pytorch#25016",
       "the larger one by the order of operands",
       {row({nan, 1}), row({1, nan})},
       [](In x) { return maximum(x[0], x[1]); },
       {nan, nan}},
      {"ml-explore/mlx#4044",
       "a running maximum forgets what is no number",
       {row({1, 3, nan, 5, 4})},
       [](In x) { return cummax(x[0], 0).values; },
       {1, 3, nan, nan, nan}},
      {"pytorch/pytorch#41998",
       "the last of equal ones",
       {of(I64, {3, 2}, {1, 5, 2, 10, 3, 3})},
       [](In x) { return argmax(x[0], 1); },
       {1, 1, 0}},
      {"apache/mxnet#16216",
       "argmax passes over what is no number",
       {of(F32, {2, 3}, {1, 5, 3, nan, 2, 6})},
       [](In x) { return argmax(x[0], 1); },
       {1, 0}},
      {"pytorch/pytorch#17824",
       "kthvalue orders otherwise than sort",
       {row({.7, nan, .25})},
       [](In x) { return kthvalue(x[0], 3).values; },
       {nan}},
      {"pytorch/pytorch#15338",
       "clamp makes what is no number a bound",
       {row({nan, 2, -1})},
       [](In x) { return clamp(x[0], 0.0, 1.0); },
       {nan, 1, 0}},
      {"pytorch/pytorch#76795",
       "a bound that is no number is left out",
       {row({0, 0}), row({nan, 1})},
       [](In x) { return clamp_min(x[0], x[1]); },
       {nan, 1}},
      // whole numbers and remainders
      {"pytorch/pytorch#43874",
       "-3 // 2 is -1",
       {ints({-3, 3, -4}), ints({2, -2, 2})},
       [](In x) { return floor_divide(x[0], x[1]); },
       {-2, -2, -2}},
      {"tinygrad/tinygrad#10425",
       "a quotient of ints by a reciprocal",
       {ints({110}), ints({55})},
       [](In x) { return floor_divide(x[0], x[1]); },
       {2}},
      {"pytorch/pytorch#1164",
       "a remainder with the sign of the dividend",
       {ints({-2, -1, 0, 1, 2})},
       [](In x) { return remainder(x[0], 3); },
       {1, 2, 0, 1, 2}},
      {"numba/numba#8574",
       "fmod with the sign of the divisor",
       {ints({-4})},
       [](In x) { return fmod(x[0], 10); },
       {-4}},
      {"numpy/numpy#7224",
       "a remainder that is exact, rounded",
       {row(F64, {3}), row(F64, {2.5})},
       [](In x) { return remainder(x[0], x[1]); },
       {0.5}},
      {"tinygrad/tinygrad#18041",
       "a - floor(a / b) * b of a huge quotient",
       {row({1e30}), row({1e-30})},
       [](In x) { return remainder(x[0], x[1]); },
       {8.16681565120793e-31}},
      {"tinygrad/tinygrad#3240",
       "halves not to even",
       {row({2.5, -1.5, 0.5, 1.5, 3.5})},
       [](In x) { return round(x[0]); },
       {2, -2, 0, 2, 4}},
      {"apache/tvm#20239",
       "decimals below 0 by a factor of 0.1",
       {row(F64, {25, 35})},
       [](In x) { return round(x[0], -1); },
       {20, 40}},
      {"tinygrad/tinygrad#17087",
       "65536 stays finite in f16",
       {row({65536, 65519, 65520})},
       [](In x) { return cast(x[0], F16); },
       {inf, 65504, inf}},
      // scatters, segments, bags
      {"pytorch/pytorch#142330",
       "the value that is there counts in the mean",
       {row({0, 0}), ints({0, 0, 0, 1}), row({-1.7451, -1.6061, 1.0150, 0.8855})},
       [](In x) { return scatter_reduce(x[0], 0, x[1], x[2], ScatterReduce::Mean); },
       {-0.5840499997138977, 0.4427500069141388},
       2},
      {"rusty1s/pytorch_scatter#24",
       "zeros are larger than all",
       {row({-.1, -.3, -.2}), ints({2, 1})},
       [](In x) {
         return segment_max(Jagged{x[0], x[1]});
       },
       {-0.10000000149011612, -0.20000000298023224}},
      {"dmlc/dgl#761",
       "a segment without rows is -inf",
       {row({-2, -3}), ints({0, 0, 2})},
       [](In x) {
         return segment_sum(Jagged{x[0], x[1]});
       },
       {0, 0, -5}},
      {"pytorch/pytorch#4169",
       "the mean of an empty bag: 0/0",
       {ints({0, 1, 2, 3, 4}), of(F32, {5, 1}, {0, 3, 6, 9, 12}), ints({0, 1, 1, 3, 3, 4})},
       [](In x) { return embedding_bag(x[0], x[1], {.offsets = x[2]}); },
       {0, 0, 4.5, 0, 9, 12}},
      {"pytorch/pytorch#49237",
       "a padded element counts in the mean",
       {of(I64, {1, 3}, {0, 1, 2}), of(F32, {3, 2}, {1, 1, 2, 2, 3, 3})},
       [](In x) { return embedding_bag(x[0], x[1], {.padding_idx = 1}); },
       {2, 2}},
      // windows
      {"sonos/tract#2851",
       "the last window by the whole kernel",
       {of(F32, {1, 5}, {1, 2, 3, 4, 5})},
       [](In x) { return avg_pool1d(x[0], {.kernel = {2}, .stride = {2}, .ceil_mode = true}); },
       {1.5, 3.5, 5}},
      {"pytorch/executorch#18616",
       "a divisor that is given is left out",
       {all(F32, {1, 1, 2, 2}, 1)},
       [](In x) {
         return avg_pool2d(x[0], {.kernel = {3},
                                  .stride = {1},
                                  .padding = {1},
                                  .count_include_pad = false,
                                  .divisor = 5});
       },
       {0.8, 0.8, 0.8, 0.8}},
      {"pytorch/pytorch#41294",
       "padding that is 0 is the largest",
       {of(F32, {1, 1, 2, 2}, {-4, -3, -2, -9})},
       [](In x) { return max_pool2d(x[0], {.kernel = {3}, .stride = {1}, .padding = {1}}); },
       {-2, -2, -2, -2}},
      {"pytorch/pytorch#45357",
       "a window behind x: a row of -inf",
       {of(F32, {1, 1, 1, 3}, {1, 2, 3})},
       [](In x) { return max_pool2d(x[0], {.kernel = {1}, .stride = {2}, .ceil_mode = true}); },
       {1, 3}},
  };
}

/// Twice what one rounding is off; f64's is that of functions of several roundings.
double unit_of(DType dtype) {
  return dtype == F32 ? 0x1p-23 : dtype == F64 ? 0x1p-51 : dtype == F16 ? 0x1p-10 : 0x1p-7;
}

std::string name_of(std::size_t report, std::size_t input) {
  return "r" + std::to_string(report) + "." + std::to_string(input);
}

TEST(ReportedNumbers, AreRight_InterpretedCompiledAndOnADevice) {
  const std::vector<Report> all = reports();
  test::DecisionBuilder builder;
  Inputs inputs;
  for (std::size_t r = 0; r < all.size(); ++r)
    for (std::size_t k = 0; k < all[r].inputs.size(); ++k) {
      const Array& array = all[r].inputs[k];
      builder.tensor(name_of(r, k), array.dtype(), {array.sizes().begin(), array.sizes().end()});
      inputs[name_of(r, k)] = array;
    }
  const Decision decision = builder.get();
  const auto traced = trace(test::setup(decision), [&](Trace& t) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      std::vector<Tensor> x;
      for (std::size_t k = 0; k < all[r].inputs.size(); ++k)
        x.push_back(t.tensor_input(t.source(name_of(r, k))));
      t.output("y" + std::to_string(1000 + r), all[r].value(x));
    }
  });
  ASSERT_TRUE(traced) << traced.error().text();
  const auto executable = compile(*traced);
  ASSERT_TRUE(executable);
  const std::pair<const char*, std::vector<Array>> ways[] = {
      {"interpreted", run_interpreted(*traced, inputs).value()},
      {"compiled", run_compiled(*executable, inputs).value()},
      {"on a device", order_cases::OnDevice(*traced).run(inputs)}};
  for (const auto& [way, values] : ways)
    for (std::size_t r = 0; r < all.size(); ++r) {
      const Array& got = values[r];
      ASSERT_EQ(got.elements(), static_cast<I>(all[r].right.size())) << all[r].of;
      for (I i = 0; i < got.elements(); ++i) {
        const double right = all[r].right[static_cast<std::size_t>(i)], mine = got.at(i);
        const double bound = all[r].digits * unit_of(got.dtype()) * std::abs(right);
        EXPECT_TRUE(mine == right || (mine != mine && right != right) ||
                    std::abs(mine - right) <= bound)
            << way << " " << all[r].of << " (" << all[r].fault << "): " << mine << " for " << right
            << " at " << i;
      }
    }
}

}  // namespace
}  // namespace lockstep::worker::reported_numbers_test
