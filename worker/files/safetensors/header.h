// The front of a safetensors file: its tensors and their places. Parsed from untrusted bytes; the
// README of this room describes the format.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Largest header in bytes. A longer one is refused, here and by the `safetensors` package.
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
/// Most dims of a tensor.
inline constexpr std::size_t kMostStoredDims = 64;

/// A tensor in the header. `begin` counts from the first byte of data, which follows the header.
struct StoredTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> sizes;
  std::uint64_t begin = 0, bytes = 0;
  bool operator==(const StoredTensor&) const = default;
};

/// A whole header. Invariant of a parsed header: names are unique, and tensors, in their order,
/// fill the data without a hole.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::uint64_t data_at = 0;                    // offset of the data in the file
  std::uint64_t data_bytes = 0;
};

/// "BF16"
[[nodiscard]] std::string_view stored_dtype_name(DType dtype);
[[nodiscard]] std::optional<DType> stored_dtype(std::string_view name);

/// Returns the bytes of a tensor; nullopt if a size is negative, there are too many dims, or a
/// product overflows 63 bits.
[[nodiscard]] std::optional<std::uint64_t> stored_bytes(DType dtype,
                                                        const std::vector<std::int64_t>& sizes);

/// Checks that a file of `file_bytes` bytes can have a header of `length` bytes. Errors: BadInput
/// with the name of the file.
[[nodiscard]] Result<void> check_header_length(std::uint64_t length, std::uint64_t file_bytes,
                                               std::string_view file);
/// Parses the text of a header, which is followed by `file_bytes - 8 - text.size()` bytes of data.
/// Errors: BadInput, naming file and tensor: not JSON, a name twice, an unknown dtype, sizes and
/// bytes that differ, bytes that overlap, leave a hole or do not end with the file.
[[nodiscard]] Result<SafetensorsHeader> parse_header(std::string_view text,
                                                     std::uint64_t file_bytes,
                                                     std::string_view file);

/// Lays out tensors by element size, the largest first, so that every tensor is aligned, then by
/// name. Ignores `begin` and `bytes` of the argument. Errors: BadInput (a name twice, empty,
/// "__metadata__" or not UTF-8; sizes out of range; a header that is too long).
[[nodiscard]] Result<SafetensorsHeader> lay_out(std::vector<StoredTensor> tensors,
                                                std::map<std::string, std::string> metadata,
                                                std::string_view file);
/// Returns everything before the data: length, JSON and padding to a multiple of 8 bytes. Requires
/// a header from lay_out().
[[nodiscard]] std::string header_bytes(const SafetensorsHeader& header);

/// Returns `name` in quotes on one line, cut if it is long: for messages.
[[nodiscard]] std::string quoted_name(std::string_view name);

}  // namespace lockstep::worker
