#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/half.h>

namespace lockstep::worker {
namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;  // never 0
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (!memory) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

template <class T>
double read(const void* base, std::int64_t i) {
  return static_cast<double>(static_cast<const T*>(base)[i]);
}
template <class T>
void write(void* base, std::int64_t i, double value) {
  static_cast<T*>(base)[i] = static_cast<T>(value);
}

}  // namespace

Array::Array(DType dtype, std::vector<std::int64_t> sizes)
    : dtype_(dtype), sizes_(std::move(sizes)) {
  storage_ = std::make_shared<Storage>(Storage{allocate(bytes()), nullptr});
}

Array Array::borrowed(DType dtype, std::vector<std::int64_t> sizes, const void* elements) {
  return over(dtype, std::move(sizes), const_cast<void*>(elements));
}

Array Array::over(DType dtype, std::vector<std::int64_t> sizes, void* memory) {
  Array array;
  array.dtype_ = dtype;
  array.sizes_ = std::move(sizes);
  array.storage_ = std::make_shared<Storage>(
      Storage{{static_cast<std::byte*>(memory), [](std::byte*) {}}, nullptr});
  return array;
}

Array Array::far(DType dtype, std::vector<std::int64_t> sizes,
                 std::shared_ptr<const DeviceMemory> memory) {
  Array array;
  array.dtype_ = dtype;
  array.sizes_ = std::move(sizes);
  array.storage_ = std::make_shared<Storage>(Storage{nullptr, std::move(memory)});
  return array;
}

Array Array::unsized(DType dtype, std::shared_ptr<const DeviceMemory> memory) {
  Array array = far(dtype, {}, std::move(memory));
  array.unsized_ = true;
  return array;
}

void Array::refuse_sizes() const {
  const auto refused = storage_->far->fetch(nullptr, 0);
  throw std::runtime_error(refused ? "its sizes are not known" : refused.error().message);
}

void Array::fetch_to_host() const {
  if (storage_->host) return;
  auto host = allocate(bytes());
  if (auto fetched = storage_->far->fetch(host.get(), bytes()); !fetched)
    throw std::runtime_error(fetched.error().message);
  storage_->host = std::move(host);
}

Array Array::zeros(DType dtype, std::vector<std::int64_t> sizes) {
  Array array(dtype, std::move(sizes));
  std::memset(array.data(), 0, array.bytes());
  return array;
}

Array Array::of(DType dtype, std::vector<std::int64_t> sizes, std::span<const double> values) {
  Array array(dtype, std::move(sizes));
  for (std::size_t i = 0; i < values.size(); ++i)
    array.set(static_cast<std::int64_t>(i), values[i]);
  return array;
}

Array Array::reshaped(std::vector<std::int64_t> sizes) const {
  Array view = *this;
  view.sizes_ = std::move(sizes);
  return view;
}

Array Array::clone() const {
  if (!storage_) return {};
  Array copy(dtype_, sizes_);
  std::memcpy(copy.data(), data(), bytes());
  return copy;
}

std::int64_t Array::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes()) n *= size;
  return n;
}

std::size_t Array::bytes() const {
  return static_cast<std::size_t>(elements()) * dtype_size(dtype_);
}

std::optional<std::int64_t> scalar_in(const Array& array) {
  if (!array || !array.sizes().empty()) return std::nullopt;
  if (array.dtype() == DType::I64) return *array.data_as<std::int64_t>();
  if (array.dtype() < DType::F16) return static_cast<std::int64_t>(array.at(0));
  return std::bit_cast<std::int64_t>(array.at(0));
}

double Array::at(std::int64_t i) const {
  switch (dtype_) {
    case DType::Bool:
      return read<std::uint8_t>(data(), i) != 0 ? 1.0 : 0.0;
    case DType::U8:
      return read<std::uint8_t>(data(), i);
    case DType::I8:
      return read<std::int8_t>(data(), i);
    case DType::I16:
      return read<std::int16_t>(data(), i);
    case DType::I32:
      return read<std::int32_t>(data(), i);
    case DType::I64:
      return read<std::int64_t>(data(), i);
    case DType::F16:
    case DType::BF16:
      return half_value(dtype_, data_as<std::uint16_t>()[i]);
    case DType::F32:
      return read<float>(data(), i);
    case DType::F64:
      return read<double>(data(), i);
  }
  return 0;
}

void Array::set(std::int64_t i, double value) {
  switch (dtype_) {
    case DType::Bool:
      write<std::uint8_t>(data(), i, value != 0 ? 1 : 0);
      break;
    case DType::U8:
      write<std::uint8_t>(data(), i, value);
      break;
    case DType::I8:
      write<std::int8_t>(data(), i, value);
      break;
    case DType::I16:
      write<std::int16_t>(data(), i, value);
      break;
    case DType::I32:
      write<std::int32_t>(data(), i, value);
      break;
    case DType::I64:
      write<std::int64_t>(data(), i, value);
      break;
    case DType::F16:
    case DType::BF16:
      data_as<std::uint16_t>()[i] = half_bits(dtype_, value);
      break;
    case DType::F32:
      write<float>(data(), i, value);
      break;
    case DType::F64:
      write<double>(data(), i, value);
      break;
  }
}

}  // namespace lockstep::worker
