// Saved programs as files.
#pragma once

#include <string>

#include <lockstep/worker/saved/saved_bytes.h>

namespace lockstep::worker {

/// The most bytes that a file of a saved program may have.
inline constexpr std::uint64_t kMostProgramBytes = std::uint64_t{1} << 30;

/// Writes the file as a whole or not at all: beside it, to the disk, and into its place. Errors:
/// BadInput (a program that nobody could read), Environment (a disk that does not take it). Both
/// name the file.
[[nodiscard]] Result<void> write_program(const std::string& path, const SavedProgram& program);
/// Errors: BadInput, one sentence that names the file: it is not there, is damaged, is of another
/// version, uses an op that is not known here.
[[nodiscard]] Result<SavedProgram> read_program(const std::string& path, const OwnOps& own = {});

}  // namespace lockstep::worker
