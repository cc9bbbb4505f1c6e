// What is done with checkpoints without a job: every digest compared; the pieces of all ranks put
// together in files that other tools read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/worker/checkpoint/index.h>

namespace lockstep::worker {

/// Reads every piece of the checkpoint in `folder` and compares its digest; the bytes read. Errors:
/// BadInput, naming file and tensor; Version, Environment.
[[nodiscard]] Result<std::uint64_t> verify_checkpoint(const std::string& folder);

struct MergeOptions {
  std::string output;  // a folder, which must not be there
  /// Only tensors whose names begin so, and without it. "": all, as they are named.
  std::string prefix{};
  /// Of the tensors of one file; at least one tensor goes into each.
  std::uint64_t most_bytes = std::uint64_t{5'000'000'000};
};

struct Merged {
  std::vector<std::string> files;
  std::uint64_t tensors = 0, bytes = 0;
};

/// Writes whole tensors to OUTPUT/model.safetensors, or, where they are more than `most_bytes`, to
/// model-00001-of-00003.safetensors, … and model.safetensors.index.json. Digests are compared
/// first. Takes memory for one slab, however large tensors are. The folder has its name only once
/// it is complete. Errors: BadInput (damaged, the output is there, no tensor has the prefix),
/// Version, Environment.
[[nodiscard]] Result<Merged> merge_checkpoint(const std::string& folder,
                                              const MergeOptions& options);

}  // namespace lockstep::worker
