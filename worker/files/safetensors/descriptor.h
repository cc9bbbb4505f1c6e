// Reading files of tensors, and the errors of files.
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
/// Environment: as above, for a failed step of a draft.
[[nodiscard]] Status file_error(const FileFault& fault, const std::string& file);
/// True if `error` is a file_error() because the disk, or this user's quota, was full.
[[nodiscard]] bool is_full(const Status& error);
/// Fills `into` from `offset` on, without moving the file's position. Errors: BadInput (the file
/// ends before), Environment.
[[nodiscard]] Result<void> read_at(const OpenFile& from, std::uint64_t offset,
                                   std::span<std::byte> into, const std::string& file);
/// Syncs a folder to disk, which makes the names in it durable. Errors: Environment.
[[nodiscard]] Result<void> sync_folder(const std::string& folder);

}  // namespace lockstep::worker
