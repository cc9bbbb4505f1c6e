#include <lockstep/worker/compile/interpreter/interpret.h>
#include <lockstep/worker/compile/run/attention.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {
namespace {

/// A matrix whose element (i, j) is data[i * row + j * column].
template <class T>
struct Block {
  const T* data;
  std::int64_t row, column;
};
/// out [m, n] = a [m, k] b [k, n].
template <class T>
void multiply(Block<T> a, Block<T> b, T* out, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;  // a product of two f32 is exact in it
      for (std::int64_t p = 0; p < k; ++p)
        total += static_cast<double>(a.data[i * a.row + p * a.column]) *
                 static_cast<double>(b.data[p * b.row + j * b.column]);
      out[i * n + j] = static_cast<T>(total);
    }
}

template <class T>
void matmul(const NodeCall& call, Array& out) {
  const auto& a = call.operands[0]->sizes();
  const auto& b = call.operands[1]->sizes();
  const std::size_t last = a.size() - 1;
  const std::int64_t m = a[last - 1], k = a[last], n = b[last];
  std::int64_t batch = 1;
  for (std::size_t d = 0; d + 1 < last; ++d) batch *= a[d];
  for (std::int64_t i = 0; i < batch; ++i)
    multiply<T>({call.operands[0]->data_as<T>() + i * m * k, k, 1},
                {call.operands[1]->data_as<T>() + i * k * n, n, 1}, out.data_as<T>() + i * m * n, m,
                k, n);
}

template <class T>
void segments(const NodeCall& call, std::span<const std::int64_t> counts, Array& out) {
  const bool outer = call.node().op == Op::SegmentOuter;
  const std::int64_t k = call.operands[0]->sizes()[1];
  const std::int64_t m = outer ? call.operands[1]->sizes()[1] : call.operands[1]->sizes()[2];
  const T* x = call.operands[0]->data_as<T>();
  const T* y = call.operands[1]->data_as<T>();
  std::int64_t start = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const auto slab = static_cast<std::int64_t>(e) * k * m;
    if (outer)
      multiply<T>({x + start * k, 1, k}, {y + start * m, m, 1}, out.data_as<T>() + slab, k,
                  counts[e], m);
    else
      multiply<T>({x + start * k, k, 1}, {y + slab, m, 1}, out.data_as<T>() + start * m, counts[e],
                  k, m);
    start += counts[e];
  }
}

Array cast_each(const Array& from, DType dtype) {
  Array out(dtype, from.sizes());
  for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, from.at(i));
  return out;
}

/// Returns the product that `f` computes. f16 and bf16 are multiplied as f32, and the result is
/// rounded once.
template <class F>
Array product_of(const NodeCall& call, F&& f) {
  if (is_half(call.dtype())) {
    std::vector<Array> wide;
    for (std::size_t k = 0; k < 2; ++k) wide.push_back(cast_each(*call.operands[k], DType::F32));
    NodeCall of_wide = call;
    for (std::size_t k = 0; k < 2; ++k) of_wide.operands[k] = &wide[k];
    Array out(DType::F32, call.sizes);
    f(std::type_identity<float>{}, of_wide, out);
    return cast_each(out, call.dtype());
  }
  Array out(call.dtype(), call.sizes);
  if (call.dtype() == DType::F32)
    f(std::type_identity<float>{}, call, out);
  else
    f(std::type_identity<double>{}, call, out);
  return out;
}

Result<Array> whole(const NodeCall& call) {
  return product_of(call, []<class T>(std::type_identity<T>, const NodeCall& of, Array& out) {
    matmul<T>(of, out);
  });
}

Result<Array> by_segments(const NodeCall& call) {
  const Array& list = *call.operands[2];
  const std::span counts(list.data_as<std::int64_t>(), static_cast<std::size_t>(list.elements()));
  const std::int64_t rows = call.operands[0]->sizes()[0];
  if (!counts_add_up(counts, rows)) return counts_failure(*call.graph, call.id, counts, rows);
  return product_of(call, [&]<class T>(std::type_identity<T>, const NodeCall& of, Array& out) {
    segments<T>(of, counts, out);
  });
}

/// By the function of compiled programs, whose bits depend on the sizes alone.
Result<Array> attention(const NodeCall& call) {
  std::vector<std::int64_t> sizes;
  std::vector<const void*> operands;
  for (const Array* operand : call.operands) {
    sizes.insert(sizes.end(), operand->sizes().begin(), operand->sizes().end());
    operands.push_back(operand->data());
  }
  Array out(call.dtype(), call.sizes);
  Threads alone;
  attend(alone, AttentionSizes(*call.graph, call.id, sizes), operands, out.data());
  return out;
}

constexpr OpMap<Result<Array> (*)(const NodeCall&)> kProducts(of_class<OpClass::Product>,
                                                              {{Op::Matmul, whole},
                                                               {Op::SegmentMatmul, by_segments},
                                                               {Op::SegmentOuter, by_segments},
                                                               {Op::Attention, attention},
                                                               {Op::AttentionGradient, attention}});

}  // namespace

Result<Array> interpret_product(const NodeCall& call) { return kProducts[call.node().op](call); }

}  // namespace lockstep::worker
