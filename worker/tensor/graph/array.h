// A concrete tensor: dtype, sizes, contiguous row-major bytes, on the host or on a device. Programs
// pass and receive them; kernels and the interpreter work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Elements outside the host's memory: on a device.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Copies the first `bytes` to the host. Errors: the device's.
  [[nodiscard]] virtual Result<void> fetch(void* to, std::size_t bytes) const = 0;
};

/// Shared, 64-byte aligned storage: copying an Array shares it, like a tensor handle; `clone`
/// copies. The runtime never writes into an Array that it received as an input. Elements on a
/// device are copied to the host at the first access; after an access that may write, only the
/// host's copy is left. If the device cannot provide them, std::runtime_error with its message is
/// thrown. All Arrays of a device are used by one thread.
class Array {
 public:
  Array() = default;
  /// Uninitialised memory.
  Array(DType dtype, std::vector<std::int64_t> sizes);
  [[nodiscard]] static Array zeros(DType dtype, std::vector<std::int64_t> sizes);
  /// Converts each value to `dtype`. Requires as many values as elements.
  [[nodiscard]] static Array of(DType dtype, std::vector<std::int64_t> sizes,
                                std::span<const double> values);
  /// Elements owned by the caller, who keeps them while this Array is in use. Never written to.
  [[nodiscard]] static Array borrowed(DType dtype, std::vector<std::int64_t> sizes,
                                      const void* elements);
  /// An Array over memory of the caller, which outlives it and all copies of it.
  [[nodiscard]] static Array over(DType dtype, std::vector<std::int64_t> sizes, void* memory);
  /// Elements on a device.
  [[nodiscard]] static Array far(DType dtype, std::vector<std::int64_t> sizes,
                                 std::shared_ptr<const DeviceMemory> memory);
  /// Elements on a device whose number is not known on the host: asking for sizes or elements gives
  /// the memory's error.
  [[nodiscard]] static Array unsized(DType dtype, std::shared_ptr<const DeviceMemory> memory);
  /// A view of the same storage with other sizes. Requires the same number of elements.
  [[nodiscard]] Array reshaped(std::vector<std::int64_t> sizes) const;
  [[nodiscard]] Array clone() const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const {
    if (unsized_) refuse_sizes();
    return sizes_;
  }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::size_t bytes() const;
  /// The elements on the host.
  [[nodiscard]] void* data() {
    if (storage_ == nullptr) return nullptr;
    if (storage_->far) fetch_to_host();
    storage_->far.reset();
    return storage_->host.get();
  }
  [[nodiscard]] const void* data() const {
    if (storage_ == nullptr) return nullptr;
    if (storage_->far) fetch_to_host();
    return storage_->host.get();
  }
  /// The elements' place on a device; null if only the host has them.
  [[nodiscard]] std::shared_ptr<const DeviceMemory> far_memory() const {
    return storage_ ? storage_->far : nullptr;
  }
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
  struct Storage {
    std::shared_ptr<std::byte> host;  // null: not fetched yet
    std::shared_ptr<const DeviceMemory> far;
  };
  void fetch_to_host() const;
  void refuse_sizes() const;
  DType dtype_ = DType::F32;
  bool unsized_ = false;
  std::vector<std::int64_t> sizes_;
  std::shared_ptr<Storage> storage_;
};

/// The number in a 0-d array: an integer or bool as it is, a float as the bits of a double. nullopt
/// for an empty array, or one with dims.
[[nodiscard]] std::optional<std::int64_t> scalar_in(const Array& array);

}  // namespace lockstep::worker
