// Loads a checkpoint into the state of a job of any number of ranks, spread in any way. Each rank
// reads the parts that its tensors need. At least one of the ranks that need a piece compares its
// digest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/worker/files/checkpoint/ranks.h>
#include <lockstep/worker/files/checkpoint/state.h>

namespace lockstep::worker {

struct RestoreOptions {
  /// Step of the checkpoint to load; nullopt: the last complete one.
  std::optional<std::int64_t> step{};
  /// False: digests are not compared, so each rank reads only what it needs.
  bool verify = true;
  /// True: the checkpoint may have tensors and values that no rank's state has.
  bool allow_extra = false;
};

struct Restored {
  std::int64_t step = 0;
  int world_size = 1;            // number of ranks of the job that saved it
  std::uint64_t bytes_used = 0;  // bytes of this rank's tensors
  std::uint64_t bytes_read = 0;  // by this rank; more than bytes_used where digests need it
};

/// Sets all tensors and values of `leaves` on all ranks; after an error, none on any rank. The
/// sizes of a tensor in the state say which part is loaded; an empty tensor that is not sharded
/// takes the whole saved tensor. Returns nullopt if there is no checkpoint. Errors, joint: BadInput
/// (the checkpoint is damaged; a tensor or value is missing from it, is in no rank's state, has
/// another dtype, shape or kind, or does not fit the state's type), Version, Environment.
[[nodiscard]] Result<std::optional<Restored>> restore_checkpoint(CheckpointRanks& ranks,
                                                                 const std::string& folder,
                                                                 const StateLeaves& leaves,
                                                                 const RestoreOptions& options);

}  // namespace lockstep::worker
