#include <type_traits>

#include <lockstep/collectives/reduction.h>

namespace lockstep::collectives {
namespace {

template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else  // Unsigned 64-bit sums wrap to the same bits as sums of the narrower type.
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class T>
void reduce_as(Reduce reduce, void* into, const void* from, std::int64_t elements) {
  T* a = static_cast<T*>(into);
  const T* b = static_cast<const T*>(from);
  switch (reduce) {
    case Reduce::Sum:
      for (std::int64_t i = 0; i < elements; ++i) a[i] = add(a[i], b[i]);
      return;
    case Reduce::Min:
      for (std::int64_t i = 0; i < elements; ++i) a[i] = b[i] < a[i] ? b[i] : a[i];
      return;
    case Reduce::Max:
      for (std::int64_t i = 0; i < elements; ++i) a[i] = a[i] < b[i] ? b[i] : a[i];
  }
}

}  // namespace

void reduce_elements(DType dtype, Reduce reduce, void* into, const void* from,
                     std::int64_t elements) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8:
      return reduce_as<std::uint8_t>(reduce, into, from, elements);
    case DType::I8:
      return reduce_as<std::int8_t>(reduce, into, from, elements);
    case DType::I16:
      return reduce_as<std::int16_t>(reduce, into, from, elements);
    case DType::I32:
      return reduce_as<std::int32_t>(reduce, into, from, elements);
    case DType::I64:
      return reduce_as<std::int64_t>(reduce, into, from, elements);
    case DType::F32:
      return reduce_as<float>(reduce, into, from, elements);
    case DType::F64:
      return reduce_as<double>(reduce, into, from, elements);
    case DType::F16:
    case DType::BF16:
      return;
  }
}

}  // namespace lockstep::collectives
