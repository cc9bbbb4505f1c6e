// The part of DLPack's tables of functions (version 1.3) that reads a tensor's sizes without a
// copy: https://dmlc.github.io/dlpack/latest/c_api.html. The layout is that of the standard.
#pragma once

#include <cstdint>

namespace lockstep::python {

struct DlType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
  bool operator==(const DlType&) const = default;
};

struct DlTensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t ndim;
  DlType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

/// The target of `type(tensor).__dlpack_c_exchange_api__`, a capsule named kDlExchangeName.
struct DlExchange {
  std::uint32_t major, minor;
  const DlExchange* previous;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  /// Borrowed from `object` until control returns to Python; -1 with an exception set. May be null.
  int (*tensor_from_object)(void* object, DlTensor* out);
  void* current_stream;
};
inline constexpr const char* kDlExchangeName = "dlpack_exchange_api";
inline constexpr std::uint32_t kDlMajor = 1;

}  // namespace lockstep::python
