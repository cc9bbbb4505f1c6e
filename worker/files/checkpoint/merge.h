// Operations on checkpoints without a job: comparing every digest, and merging the pieces of all
// ranks into files that other tools read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/worker/files/checkpoint/index.h>

namespace lockstep::worker {

/// Reads every piece of the checkpoint in `folder` and compares its digest. Returns the bytes read.
/// Errors: BadInput, naming file and tensor; Version, Environment.
[[nodiscard]] Result<std::uint64_t> verify_checkpoint(const std::string& folder);

struct MergeOptions {
  std::string output;  // a folder that must not exist
  /// Merges only tensors whose names begin with this prefix, and removes it from their names. "":
  /// all tensors.
  std::string prefix{};
  /// Most bytes of tensors in one file; a file holds at least one tensor.
  std::uint64_t most_bytes = std::uint64_t{5'000'000'000};
};

struct Merged {
  std::vector<std::string> files;
  std::uint64_t tensors = 0, bytes = 0;
};

/// Writes whole tensors to OUTPUT/model.safetensors. If they exceed `most_bytes`, writes
/// model-00001-of-00003.safetensors, … and model.safetensors.index.json instead. Digests are
/// compared first. Takes memory for one slab, however large tensors are. The folder gets its name
/// only when it is complete. Errors: BadInput (damaged, the output exists, no tensor has the
/// prefix), Version, Environment.
[[nodiscard]] Result<Merged> merge_checkpoint(const std::string& folder,
                                              const MergeOptions& options);

}  // namespace lockstep::worker
