// A concrete tensor on the host: dtype, sizes, contiguous row-major bytes. What programs pass in
// and get back, and what kernels and the interpreter work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep::worker {

/// Shared, 64-byte aligned storage: copying an Array shares it (as a tensor handle does
/// everywhere); `clone` copies. The runtime never writes into an Array that was handed to it as an
/// input.
class Array {
 public:
  Array() = default;
  /// Uninitialised memory.
  Array(DType dtype, std::vector<std::int64_t> sizes);
  [[nodiscard]] static Array zeros(DType dtype, std::vector<std::int64_t> sizes);
  /// Converts each value to `dtype`. Requires as many values as elements.
  [[nodiscard]] static Array of(DType dtype, std::vector<std::int64_t> sizes,
                                std::span<const double> values);
  /// Views `storage` of another with other sizes; same number of elements.
  [[nodiscard]] Array reshaped(std::vector<std::int64_t> sizes) const;
  [[nodiscard]] Array clone() const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] void* data() { return storage_.get(); }
  [[nodiscard]] const void* data() const { return storage_.get(); }
  template <class T>
  [[nodiscard]] T* data_as() {
    return static_cast<T*>(data());
  }
  template <class T>
  [[nodiscard]] const T* data_as() const {
    return static_cast<const T*>(data());
  }
  /// Element i, counted in row-major order, as a double (exact for ints below 2^53).
  [[nodiscard]] double at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  [[nodiscard]] explicit operator bool() const { return storage_ != nullptr; }

 private:
  DType dtype_ = DType::F32;
  std::vector<std::int64_t> sizes_;
  std::shared_ptr<std::byte> storage_;
};

/// The number in a 0-d array: an integer or bool as it is, a float as the bits of a double. nullopt
/// where there are more or fewer elements.
[[nodiscard]] std::optional<std::int64_t> scalar_in(const Array& array);

}  // namespace lockstep::worker
