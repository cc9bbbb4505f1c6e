// The contents of a checkpoint: parts of global tensors, and small values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/dtype.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/files/safetensors/file.h>

namespace lockstep::worker {

/// The part `box` of the tensor `name`, which has the sizes `global` over all ranks.
struct Piece {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> global;
  Box box;
  bool operator==(const Piece&) const = default;
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::uint64_t bytes() const;
};

enum class ValueKind : std::uint8_t { Int, Float, Bool, Text, Key };
[[nodiscard]] std::string_view value_kind_name(ValueKind kind);

/// A small value: an int or a key in decimals, a float as the 16 hexadecimal digits of its bits,
/// "true" or "false", or text.
struct SmallValue {
  std::string name;
  ValueKind kind = ValueKind::Int;
  std::string text;
  /// True if each rank has its own value; else the value is equal on all ranks.
  bool per_rank = false;
  bool operator==(const SmallValue&) const = default;
};

/// Returns the intersection; it has size 0 in some dim if there is none. Requires equal numbers of
/// dims.
[[nodiscard]] Box common_part(const Box& a, const Box& b);
[[nodiscard]] bool is_empty(const Box& box);

/// Checks that `boxes` fill a tensor of `global` sizes without overlap. The error's message
/// continues "tensor x ".
[[nodiscard]] Result<void> check_filled(const std::vector<std::int64_t>& global,
                                        std::vector<Box> boxes);

// Pieces as bytes, for messages between ranks.
[[nodiscard]] Bytes pieces_bytes(const std::vector<Piece>& pieces);
/// Errors: Internal.
[[nodiscard]] Result<std::vector<Piece>> pieces_in(std::span<const std::byte> bytes);

}  // namespace lockstep::worker
