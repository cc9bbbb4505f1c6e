// The tensor language: random numbers drawn by a key (key.h). Every element is a function of the
// key and of the element's index alone: the same on every rank, device and compiler. If operands do
// not fit, every function throws TraceUsageError with the user's line.
//
// Exact in every bit are ints, bools, uniform(), bernoulli(), randint(), permutation() and the
// elements that dropout() keeps. normal() and categorical() use log, log1p and cos, whose last
// places may differ between the interpreter, the host and CUDA (codegen/README.md).
//
// One key, one draw: two draws by the same key use the same bits. Make keys with split(), or with
// fold_in() of what distinguishes the draws.
#pragma once

#include <vector>

#include <lockstep/worker/tensor/language/key.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Where a tensor lies in one that is spread over ranks: the sizes of the whole, and the start of
/// this rank's part along each dim. Each is a number, a size, or a 0-d i64 tensor. An element's
/// index is its row-major index in the whole, so draws for the whole do not depend on how it is
/// spread. The size of the first dim is not used. Nothing checks that a part lies within the whole.
/// Without sizes the tensor is the whole.
///
///   normal(key, {x.size(0), 8}, {.part = {{all_rows, 8}, {first_row, 0}}})
struct Part {
  std::vector<TensorOperand> sizes{};
  std::vector<TensorOperand> starts{};
};

/// The dtype of a draw, f32 or f64, and its part.
struct Draw {
  DType dtype = DType::F32;
  Part part{};
};

/// In [0, 1): 24 bits in f32, 53 bits in f64.
[[nodiscard]] Tensor uniform(const RankKey& key, const Sizes& sizes, const Draw& draw = {},
                             Line where = Line::current());
/// In [low, high). Requires low < high, both finite.
[[nodiscard]] Tensor uniform(const RankKey& key, const Sizes& sizes, double low, double high,
                             const Draw& draw = {}, Line where = Line::current());
/// Mean 0, deviation 1, by the method of Box and Muller (1958); absolute values are at most 6.7 in
/// f32, 8.6 in f64.
[[nodiscard]] Tensor normal(const RankKey& key, const Sizes& sizes, const Draw& draw = {},
                            Line where = Line::current());
/// mean + deviation * normal(); `deviation` may be negative.
[[nodiscard]] Tensor normal(const RankKey& key, const Sizes& sizes, double mean, double deviation,
                            const Draw& draw = {}, Line where = Line::current());
/// Bools, true with probability p. p is in [0, 1] and is compared in f32; 0 means never, 1 always.
[[nodiscard]] Tensor bernoulli(const RankKey& key, const Sizes& sizes, const FloatOperand& p,
                               const Part& part = {}, Line where = Line::current());
/// As above, with a probability for each element, f32 or f64; below 0 means never, above 1 always.
[[nodiscard]] Tensor bernoulli(const RankKey& key, const Tensor& p, const Part& part = {},
                               Line where = Line::current());
/// i64 in [low, high), equally likely up to one part in 2^63 / (high - low). Requires low < high,
/// checked when the graph runs unless proven, and that the distance fits in 63 bits.
[[nodiscard]] Tensor randint(const RankKey& key, const Sizes& sizes, const SymInt& low,
                             const SymInt& high, const Part& part = {},
                             Line where = Line::current());
/// 0, 1, .., n-1 in random order, i64 [n]: sorted by 64 random bits each. Equal bits, in one of
/// 2^65 / n^2 calls, keep their order. Covers a whole tensor: ranks with the same key get the same
/// permutation.
[[nodiscard]] Tensor permutation(const RankKey& key, const SymInt& n, Line where = Line::current());
/// Draws an index along `dim` of the float logits: i64, in their sizes without that dim. Index i
/// has the probability softmax(logits, dim)[i]; it is the argmax of logits plus Gumbel noise. A
/// logit of minus infinity is never drawn unless all are. `part` is that of the logits, whose `dim`
/// is whole on every rank.
[[nodiscard]] Tensor categorical(const RankKey& key, const Tensor& logits, std::int64_t dim,
                                 const Part& part = {}, Line where = Line::current());
/// x * 1 / (1 - p) with probability 1 - p, else x * 0. p in [0, 1]; p = 0 gives x, p = 1 gives x *
/// 0. The gradient is scaled as x is. `part` is that of x.
[[nodiscard]] Tensor dropout(const Tensor& x, const FloatOperand& p, const RankKey& key,
                             const Part& part = {}, Line where = Line::current());

}  // namespace lockstep::worker
