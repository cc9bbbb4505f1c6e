#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/layers/operands.h>

namespace lockstep::worker {

using shapes::Expr;

Tensor of_sizes(std::string_view what, std::string_view name, const Tensor& x,
                const std::vector<Expr>& sizes, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x}, where);
  const std::vector<Expr> mine = meta_of(x).sizes;
  bool fits = mine.size() == sizes.size();
  for (std::size_t d = 0; fits && d < sizes.size(); ++d)
    fits = (mine[d] - sizes[d]).constant().value_or(0) == 0;
  if (!fits)
    refuse(where, what,
           fmt::format("{} is {}, and needs the sizes {}", name, meta_text(meta_of(x)),
                       meta_text({x.dtype(), sizes})));
  for (std::size_t d = 0; d < sizes.size(); ++d)
    trace->env().check(shapes::equal(mine[d], sizes[d]), trace->here(where),
                       fmt::format("{}: {} has the sizes that it needs", what, name));
  return view(x, sizes, where);
}

Dims per_dim(std::string_view what, std::string_view name, const Dims& given, std::size_t dims,
             std::int64_t least, const Line& where) {
  if (given.size() != 1 && given.size() != dims)
    refuse(where, what,
           fmt::format("{} has {} numbers; give one, or one for each of {} dims", name,
                       given.size(), dims));
  for (const std::int64_t number : given)
    if (number < least)
      refuse(where, what, fmt::format("{} is {}, and has to be at least {}", name, number, least));
  return given.size() == dims ? given : Dims(dims, given[0]);
}

void need_floats(std::string_view what, const Tensor& x, const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (!is_float(x.dtype()))
    refuse(where, what,
           fmt::format("takes floating-point numbers, not {}; cast first", meta_text(meta_of(x))));
}

Tensor whole_numbers(std::string_view what, std::string_view name, const Tensor& x,
                     const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (x.dtype() != DType::I64 && x.dtype() != DType::I32)
    refuse(
        where, what,
        fmt::format("{} is {}, and has to be i64 or i32; cast first", name, meta_text(meta_of(x))));
  return cast(x, DType::I64, where);
}

}  // namespace lockstep::worker
