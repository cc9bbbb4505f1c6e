// Building blocks of the tensor language's functions: checks of operands and dims, broadcasting,
// views. For the files of ops only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <lockstep/worker/tensor/language/tensor_ops.h>
#include <lockstep/worker/tensor/trace/named_call.h>
#include <lockstep/worker/tensor/trace/own_gradient.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {

/// The trace that all traced operands belong to. Throws TraceUsageError, naming `what` and the
/// line, for a concrete or empty tensor, operands of two traces, and a trace that has ended.
[[nodiscard]] std::shared_ptr<Trace> trace_of(std::string_view what,
                                              std::span<const Tensor> operands, const Line& where);
/// The trace of the first size that has one; throws as above.
[[nodiscard]] std::shared_ptr<Trace> trace_of(std::string_view what, const Sizes& sizes,
                                              const Line& where);

/// The trace of the operands. Throws for `sizes` of another trace, too.
[[nodiscard]] std::shared_ptr<Trace> trace_of(std::string_view what,
                                              std::span<const Tensor> operands, const Sizes& sizes,
                                              const Line& where);

/// Appends an op on tensors; `attributes` gives all but op, inputs and line. If the op does not
/// take f16 and bf16 (takes_half()), such operands are cast to f32 and its result is rounded back.
/// Autocast casts operands, too.
[[nodiscard]] Tensor emit(Op op, const std::vector<Tensor>& operands, Node attributes,
                          const Line& where);

/// For functions made of several ops that round once: `x` cast to f32 if it is f16 or bf16. Any
/// other `x`, also an empty one, is returned unchanged.
[[nodiscard]] Tensor widened(const Tensor& x, const Line& where);
/// True if `x` is a tensor of f16 or bf16 of a trace that has not ended.
[[nodiscard]] bool is_low(const Tensor& x);
/// Rounds a result that was computed in f32 to `dtype`. With StayF32 the result stays f32 while
/// autocast is on.
enum class InAutocast : std::uint8_t { Narrow, StayF32 };
[[nodiscard]] Tensor narrowed(const Tensor& x, DType dtype, InAutocast in_autocast,
                              const Line& where);
/// The tensors in one dtype: autocast casts floats to the widest one. Throws if dtypes differ.
[[nodiscard]] std::vector<Tensor> of_one_dtype(std::string_view what, std::vector<Tensor> xs,
                                               const Line& where);

/// Dtype and sizes as known now. Requires a traced tensor.
[[nodiscard]] TensorMeta meta_of(const Tensor& x);
/// `dim` with 0 <= result < ndim; negative dims count from the end.
[[nodiscard]] std::int64_t checked_dim(std::string_view what, const Tensor& x, std::int64_t dim,
                                       const Line& where);
[[nodiscard]] std::vector<shapes::Expr> exprs_of(const Sizes& sizes);
/// `x` as a view with exactly these sizes, known to hold as many elements.
[[nodiscard]] Tensor view(const Tensor& x, std::vector<shapes::Expr> sizes, const Line& where);
/// Refuses, in the name of the op, a number that the dtype does not hold.
void need_value(std::string_view what, DType dtype, double number, const Line& where);
/// A tensor with `value` everywhere.
[[nodiscard]] Tensor filled(Trace& trace, const TensorMeta& meta, double value, const Line& where);
/// Operands with one dtype and common sizes: numbers filled in, dims broadcast. `what` names the
/// op.
[[nodiscard]] std::vector<Tensor> aligned(std::string_view what,
                                          const std::vector<TensorOperand>& operands,
                                          const Line& where);

/// The common sizes of lists that broadcast, dims aligned at the end.
[[nodiscard]] std::vector<shapes::Expr> broadcast_sizes(
    std::string_view what, Trace& trace, const std::vector<std::vector<shapes::Expr>>& lists,
    const Line& where);
/// Tensors of any dtypes, broadcast to common sizes.
[[nodiscard]] std::vector<Tensor> broadcast_together(std::string_view what,
                                                     const std::vector<Tensor>& xs,
                                                     const Line& where);
/// `x` broadcast to `sizes`. Requires that each of its dims is known to be equal or is the
/// constant 1.
[[nodiscard]] Tensor expanded(const Tensor& x, const std::vector<shapes::Expr>& sizes,
                              const Line& where);

/// Makes operands with the user's line.
struct At {
  Line where;
  template <class T>
  [[nodiscard]] TensorOperand operator()(const T& x) const {
    return {x, where};
  }
};

/// `results`, computed from `inputs`, with the gradient `backward` in place of the recorded one.
/// Their nodes are distinct from those of equal values elsewhere.
[[nodiscard]] std::vector<Tensor> with_own_gradient(std::string_view what,
                                                    const std::vector<Tensor>& inputs,
                                                    const std::vector<Tensor>& results,
                                                    BackwardFunction backward, const Line& where);

/// Throws "train.cpp:41: what: words"; within a named call "train.cpp:41: name: what: words".
[[noreturn]] void refuse(const Line& where, std::string_view what, std::string_view words);

}  // namespace lockstep::worker
