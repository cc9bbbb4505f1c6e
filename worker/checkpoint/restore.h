// Loads a checkpoint into the state of a job of any number of ranks, spread in any way: each rank
// reads the parts that its own tensors need, and each piece is compared with its digest by one of
// the ranks that need it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/worker/checkpoint/ranks.h>
#include <lockstep/worker/checkpoint/state.h>

namespace lockstep::worker {

struct RestoreOptions {
  /// Of the checkpoint; nullopt: the last one that is complete.
  std::optional<std::int64_t> step{};
  /// False: digests are not compared, so nothing but what a rank needs is read.
  bool verify = true;
  /// The checkpoint may have tensors and values that no rank's state has.
  bool allow_extra = false;
};

struct Restored {
  std::int64_t step = 0;
  int world_size = 1;            // of the job that saved it
  std::uint64_t bytes_used = 0;  // of the tensors of this rank
  std::uint64_t bytes_read = 0;  // by this rank; the others of them were compared with a digest
};

/// Sets tensors and values of `leaves`: all of them on all ranks, or, after an error, none on any.
/// A tensor of the state says by its sizes what is loaded; an empty one that is not sharded takes
/// the whole. nullopt: there is no checkpoint. Errors, joint: BadInput (damaged; a tensor or value
/// is missing, of another dtype, shape or kind, in the checkpoint alone, or too large for the
/// state's type), Version, Environment.
[[nodiscard]] Result<std::optional<Restored>> restore_checkpoint(CheckpointRanks& ranks,
                                                                 const std::string& folder,
                                                                 const StateLeaves& leaves,
                                                                 const RestoreOptions& options);

}  // namespace lockstep::worker
