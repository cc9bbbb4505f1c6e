#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/collectives/base/half.h>
#include <lockstep/worker/compile/run/matmul.h>
#include <lockstep/worker/compile/run/matrix_product.h>

namespace lockstep::worker {
namespace {

/// A matrix of `rows` and `columns` without gaps.
template <class T>
StoredMatrix<T> whole(const T* data, bool transposed, std::int64_t rows, std::int64_t columns) {
  return {data, transposed ? rows : columns, transposed};
}

/// An f16 or a bf16, which the BLAS cannot multiply.
template <DType dtype>
struct Half {
  std::uint16_t bits;
};

/// Returns `from`, of `rows` and `columns`, as f32 in `to`.
template <DType dtype>
StoredMatrix<float> widened(const StoredMatrix<Half<dtype>>& from, std::int64_t rows,
                            std::int64_t columns, float* to) {
  const StoredMatrix<float> out = whole(to, from.transposed, rows, columns);
  std::int64_t lines = from.transposed ? columns : rows, line = out.stride;
  if (from.stride == line) line *= std::exchange(lines, 1);  // there are no gaps
  for (std::int64_t at = 0; at < lines; ++at)
    widen_halves(dtype, &from.data[at * from.stride].bits, to + at * line, line);
  return out;
}

/// Rows are multiplied in parts that stay in the cache as f32; the matrix on the right is widened
/// whole.
template <DType dtype>
void multiply(const MatrixProduct<Half<dtype>>& product, std::int64_t most) {
  constexpr std::int64_t kElements = std::int64_t{1} << 18;
  const auto floats = [](std::int64_t count) {
    return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count));
  };
  const auto& [a, b, out, stride, m, k, n, adds] = product;
  const std::int64_t part = std::min(std::max<std::int64_t>(kElements / (k + n), 64), m);
  const auto left = floats(part * k), right = floats(k * n), result = floats(part * n);
  const StoredMatrix<float> wide = widened(b, k, n, right.get());
  for (std::int64_t start = 0; start < m; start += part) {
    const std::int64_t rows = std::min(part, m - start);
    const StoredMatrix<float> some = widened(a.from(start, 0), rows, k, left.get());
    multiply(MatrixProduct<float>{some, wide, result.get(), n, rows, k, n}, most);
    const std::int64_t line = stride == n ? rows * n : n;  // n columns, or all if there are no gaps
    for (std::int64_t at = 0; at < rows * n; at += line)
      narrow_floats(dtype, result.get() + at, &out[start * stride + at / n * stride].bits, line);
  }
}

/// Products of fewer multiplications are one block.
constexpr double kBlockWork = 1 << 22;
/// Most rows or columns of a block: few enough that there are blocks for many threads, and so many
/// that the operand which all blocks read is seldom packed again.
constexpr std::int64_t kBlockRows = 256, kMostBlocks = 1024;

/// The products of one step, cut into blocks. Where they are cut depends on their sizes alone, so
/// an element has the same bits for any number of threads.
template <class T>
class Products {
 public:
  void add(const MatrixProduct<T>& product) {
    const auto& [a, b, out, stride, m, k, n, adds] = product;
    if (m == 0 || n == 0) return;
    if (k == 0) return void(std::memset(out, 0, static_cast<std::size_t>(m * n) * sizeof(T)));
    const double work = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
    const bool by_rows = m >= n;
    const std::int64_t all = by_rows ? m : n;
    const std::int64_t blocks =
        work < kBlockWork ? 1 : std::min((all + kBlockRows - 1) / kBlockRows, kMostBlocks);
    const std::int64_t each = (all + blocks - 1) / blocks;
    for (std::int64_t first = 0; first < all; first += each) {
      const std::int64_t count = std::min(each, all - first);
      blocks_.push_back(by_rows ? product.rows(first, count) : product.columns(first, count));
    }
    work_ += work;
  }

  void run(Threads& threads, std::int64_t part) const {
    use_one_thread_of_the_blas();
    const auto blocks = static_cast<std::int64_t>(blocks_.size());
    const int pieces =
        threads.pieces_of(static_cast<std::int64_t>(std::min(work_, 0x1p60)), blocks);
    threads.run(pieces, [&](std::int64_t piece, int) {
      for (std::int64_t at = piece * blocks / pieces; at < (piece + 1) * blocks / pieces; ++at)
        multiply(blocks_[static_cast<std::size_t>(at)], part);
    });
  }

 private:
  std::vector<MatrixProduct<T>> blocks_;
  double work_ = 0;  // multiplications
};

/// Calls `f` with a null pointer to the element type.
template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::F32)
    f(static_cast<float*>(nullptr));
  else if (dtype == DType::F64)
    f(static_cast<double*>(nullptr));
  else if (dtype == DType::F16)
    f(static_cast<Half<DType::F16>*>(nullptr));
  else
    f(static_cast<Half<DType::BF16>*>(nullptr));
}

}  // namespace

void multiply(Threads& threads, DType dtype, Operand a, Operand b, void* out, std::int64_t batch,
              std::int64_t m, std::int64_t k, std::int64_t n, std::int64_t part) {
  with_float(dtype, [&]<class T>(T*) {
    Products<T> products;
    for (std::int64_t i = 0; i < batch; ++i)
      products.add({whole(static_cast<const T*>(a.data) + i * m * k, a.transposed, m, k),
                    whole(static_cast<const T*>(b.data) + i * k * n, b.transposed, k, n),
                    static_cast<T*>(out) + i * m * n, n, m, k, n});
    products.run(threads, part);
  });
}

void multiply_segments(Threads& threads, DType dtype, const void* x, Operand w,
                       std::span<const std::int64_t> counts, void* out, std::int64_t k,
                       std::int64_t m) {
  with_float(dtype, [&]<class T>(T*) {
    Products<T> products;
    const auto* rows = static_cast<const T*>(x);
    const auto* weights = static_cast<const T*>(w.data);
    auto* to = static_cast<T*>(out);
    for (const std::int64_t count : counts) {
      products.add(
          {whole(rows, false, count, k), whole(weights, w.transposed, k, m), to, m, count, k, m});
      rows += count * k, weights += k * m, to += count * m;
    }
    products.run(threads, kBlasPart);
  });
}

void multiply_segments_outer(Threads& threads, DType dtype, const void* x, const void* y,
                             std::span<const std::int64_t> counts, void* out, std::int64_t k,
                             std::int64_t m) {
  with_float(dtype, [&]<class T>(T*) {
    Products<T> products;
    const auto* left = static_cast<const T*>(x);
    const auto* right = static_cast<const T*>(y);
    auto* to = static_cast<T*>(out);
    for (const std::int64_t count : counts) {
      products.add(
          {whole(left, true, k, count), whole(right, false, count, m), to, m, k, count, m});
      left += count * k, right += count * m, to += k * m;
    }
    products.run(threads, kBlasPart);
  });
}

}  // namespace lockstep::worker
