// Low precision where it pays, as torch.autocast: while an Autocast lives, products are computed in
// f16 or bf16. Ops that would lose most by few digits are computed in f32.
//
//   auto step = job->frame<Input, Output>("step", [](Input in) {
//     const Autocast low(in.x);
//     Tensor loss = cross_entropy(model(in), in.labels);  // products in bf16, the loss in f32
//     ...
#pragma once

#include <optional>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// From its construction to its destruction, in the trace of `x`:
/// - matmul and its composites (mv, bmm, einsum, attention, convolutions with their bias) and
///   segment_matmul cast operands of f32 to the dtype;
/// - exp, expm1, log, log2, log1p, logcumsumexp, pow, rsqrt, tan, sum, prod, cumsum, cumprod,
///   softmax, log_softmax, logsumexp, norm, softplus, norms and losses of f16 and bf16 are f32;
/// - all other ops of several floats take the widest dtype among them; f64 stays f64.
/// Its effect is casts in the graph, which ranks compare: ranks with different dtypes or scopes get
/// GRAPH_DIVERGENCE. A gradient passes back through the casts, wherever grad() is called; autocast
/// adds no casts to the gradient. Scopes nest, as C++ objects do.
class Autocast {
 public:
  /// Casts to the dtype of the frame's device: bf16 on the host, f16 on CUDA, as in torch.
  explicit Autocast(const Tensor& x, Line where = Line::current());
  /// Casts to f16 or bf16; f32 turns an outer Autocast off. Throws TraceUsageError, with the line,
  /// for another dtype and for a tensor of no trace.
  Autocast(const Tensor& x, DType dtype, Line where = Line::current());
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::shared_ptr<Trace> trace_;
  std::optional<DType> outer_;
};

}  // namespace lockstep::worker
