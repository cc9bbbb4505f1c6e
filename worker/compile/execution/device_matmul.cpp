#include <lockstep/worker/compile/execution/device_matmul.h>

namespace lockstep::worker {

std::vector<Product> products_of(const Step& step, DType dtype, std::span<const DeviceAddress> at,
                                 std::span<const std::int64_t> n,
                                 std::span<const std::int64_t> counts) {
  if (step.kind == Step::Kind::Matmul)
    return {
        {dtype, at[0], at[1], at[2], step.transpose_a, step.transpose_b, n[0], n[1], n[2], n[3]}};
  const std::int64_t k = n[1], m = n[2];  // rows, k, m, segments
  const auto from = [&](std::size_t which, std::int64_t elements) {
    return moved(at[which], static_cast<std::size_t>(elements) * dtype_size(dtype));
  };
  std::vector<Product> out;
  std::int64_t row = 0, matrix = 0;
  for (const std::int64_t rows : counts) {
    if (step.kind == Step::Kind::SegmentMatmul)
      out.push_back({.dtype = dtype,
                     .a = from(0, row * k),
                     .b = from(1, matrix),
                     .out = from(3, row * m),
                     .transpose_b = step.transpose_b,
                     .m = rows,
                     .k = k,
                     .n = m});
    else
      out.push_back({.dtype = dtype,
                     .a = from(0, row * k),
                     .b = from(1, row * m),
                     .out = from(3, matrix),
                     .transpose_a = true,
                     .m = k,
                     .k = rows,
                     .n = m});
    row += rows;
    matrix += k * m;
  }
  return out;
}

}  // namespace lockstep::worker
