// A saved program as bytes: Cereal's portable archive behind the seal of stored bytes
// (coordinator/store/seal.h), described in README.md.
#pragma once

#include <span>

#include <lockstep/worker/files/saved/saved_program.h>

namespace lockstep::worker {

/// Version of the format behind the seal.
inline constexpr std::uint32_t kProgramVersion = 1;
/// Maximum depth of nested bodies.
inline constexpr int kMostBodies = 32;

/// Equal programs give equal bytes. Errors: BadInput if the program could not be read again, for
/// example because bodies nest deeper than kMostBodies.
[[nodiscard]] Result<Bytes> encode(const SavedProgram& program);
/// Checks everything: the seal, every number, the rules of graphs, their fingerprints. Errors:
/// BadInput, with a message that continues a file's name: "is damaged: …", "uses the op …".
[[nodiscard]] Result<SavedProgram> decode_program(std::span<const std::byte> bytes,
                                                  const OwnOps& own);

}  // namespace lockstep::worker
