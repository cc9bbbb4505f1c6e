#include <array>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Row, 10> kRows{{{DType::Bool, "bool", 1},
                                     {DType::U8, "u8", 1},
                                     {DType::I8, "i8", 1},
                                     {DType::I16, "i16", 2},
                                     {DType::I32, "i32", 4},
                                     {DType::I64, "i64", 8},
                                     {DType::F16, "f16", 2},
                                     {DType::BF16, "bf16", 2},
                                     {DType::F32, "f32", 4},
                                     {DType::F64, "f64", 8}}};

}  // namespace

std::string_view dtype_name(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::size_t dtype_size(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].size; }

}  // namespace lockstep
