// Element types of tensors, named as scenario files name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class DType : std::uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

/// f16 or bf16.
[[nodiscard]] constexpr bool is_half(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}
/// "f32"
[[nodiscard]] std::string_view dtype_name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
/// Bytes of one element.
[[nodiscard]] std::size_t dtype_size(DType dtype);

}  // namespace lockstep
