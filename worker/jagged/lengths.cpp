#include <fmt/format.h>

#include <lockstep/worker/jagged/lengths.h>
#include <lockstep/worker/language/op_builder.h>

namespace lockstep::worker {

void need_lengths(std::string_view what, const Tensor& lengths, int ndim, const Line& where) {
  (void)trace_of(what, std::vector{lengths}, where);
  if (lengths.dtype(where) != DType::I64 || lengths.ndim(where) != ndim)
    refuse(where, what,
           fmt::format("takes i64 lengths of {} dim{}, not {}", ndim, ndim == 1 ? "" : "s",
                       meta_text(meta_of(lengths))));
}

}  // namespace lockstep::worker
