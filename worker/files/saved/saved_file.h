// Saved programs as files.
#pragma once

#include <string>

#include <lockstep/worker/files/saved/saved_bytes.h>

namespace lockstep::worker {

/// Most bytes of a saved program's file.
inline constexpr std::uint64_t kMostProgramBytes = std::uint64_t{1} << 30;

/// Writes the file whole or not at all: into a draft beside it, synced to disk and renamed. Errors:
/// BadInput (a program that could not be read again, or is too large), Environment (the disk
/// refuses it). Both name the file.
[[nodiscard]] Result<void> write_program(const std::string& path, const SavedProgram& program);
/// Errors: BadInput, one sentence that names the file: it is missing, damaged, of another version,
/// or uses an op that is not known here.
[[nodiscard]] Result<SavedProgram> read_program(const std::string& path, const OwnOps& own = {});

}  // namespace lockstep::worker
