// A saved program as bytes: Cereal's portable archive behind the seal of stored bytes
// (coordinator/store/seal.h), described in README.md.
#pragma once

#include <span>

#include <lockstep/worker/saved/saved_program.h>

namespace lockstep::worker {

/// Of what stands behind the seal.
inline constexpr std::uint32_t kProgramVersion = 1;
/// How deep bodies may lie in bodies.
inline constexpr int kMostBodies = 32;

/// Equal programs give equal bytes. Errors: BadInput where the program is none that can be read
/// again, for example with bodies in more than kMostBodies bodies.
[[nodiscard]] Result<Bytes> encode(const SavedProgram& program);
/// Checks all of it: the seal, every number, the rules of graphs, their fingerprints. Errors:
/// BadInput; the message goes on from a file's name: "is damaged: …", "uses the op …".
[[nodiscard]] Result<SavedProgram> decode_program(std::span<const std::byte> bytes,
                                                  const OwnOps& own);

}  // namespace lockstep::worker
