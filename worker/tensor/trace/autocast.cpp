#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/trace/autocast.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {
namespace {

const std::shared_ptr<Trace>& trace_to_cast(const Tensor& x, const Line& where) {
  if (!x.traced())
    throw TraceUsageError(
        fmt::format("{}: Autocast takes a tensor of the frame; make it in the traced function",
                    location(where).text()));
  x.trace()->need_open("Autocast", where);
  return x.trace();
}

}  // namespace

Autocast::Autocast(const Tensor& x, Line where)
    : Autocast(x, trace_to_cast(x, where)->low_precision(), where) {}

Autocast::Autocast(const Tensor& x, DType dtype, Line where)
    : trace_(trace_to_cast(x, where)), outer_(trace_->autocast()) {
  if (!is_half(dtype) && dtype != DType::F32)
    throw TraceUsageError(fmt::format("{}: Autocast takes f16 and bf16, or f32 for none, not {}",
                                      location(where).text(), dtype_name(dtype)));
  trace_->set_autocast(is_half(dtype) ? std::optional(dtype) : std::nullopt);
}

Autocast::~Autocast() { trace_->set_autocast(outer_); }

}  // namespace lockstep::worker
