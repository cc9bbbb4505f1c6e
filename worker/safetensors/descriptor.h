// Files of tensors: what is read of them, and what is said where that fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/base/whole_file.h>

namespace lockstep::worker {

/// Environment: "cannot WHAT FILE: the reason in errno".
[[nodiscard]] Status file_error(const char* what, const std::string& file);
/// The same of a draft's step.
[[nodiscard]] Status file_error(const FileFault& fault, const std::string& file);
/// It is file_error()'s where a disk, or this user's part of it, had no room left.
[[nodiscard]] bool is_full(const Status& error);
/// Fills `into` from `offset` on, without moving the file's own position. Errors: BadInput (the
/// file ends before), Environment.
[[nodiscard]] Result<void> read_at(const OpenFile& from, std::uint64_t offset,
                                   std::span<std::byte> into, const std::string& file);
/// Has the names in a folder written to disk. Errors: Environment.
[[nodiscard]] Result<void> sync_folder(const std::string& folder);

}  // namespace lockstep::worker
