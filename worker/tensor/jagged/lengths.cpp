#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/lengths.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {

Tensor wide_lengths(std::string_view what, const Tensor& lengths, int ndim, const Line& where) {
  (void)trace_of(what, std::vector{lengths}, where);
  const DType dtype = lengths.dtype(where);
  if ((dtype != DType::I64 && dtype != DType::I32) || lengths.ndim(where) != ndim)
    refuse(where, what,
           fmt::format("takes i64 or i32 lengths of {} dim{}, not {}", ndim, ndim == 1 ? "" : "s",
                       meta_text(meta_of(lengths))));
  return cast(lengths, DType::I64, where);
}

}  // namespace lockstep::worker
