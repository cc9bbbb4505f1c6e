// The folder of a job's checkpoints: its names, its complete checkpoints, and leftovers of
// interrupted saves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/files/checkpoint/index.h>
#include <lockstep/worker/files/checkpoint/stage.h>

namespace lockstep::worker {

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::string folder;  // its path
};

/// "step-000050"
[[nodiscard]] std::string step_folder_name(std::int64_t step);
/// Returns nullopt if `name` is not that of a checkpoint.
[[nodiscard]] std::optional<std::int64_t> step_of_folder(const std::string& name);

/// Returns all folders that have the name of a checkpoint, by step. A folder gets such a name only
/// when it is complete. Errors: BadInput (no such folder), Environment.
[[nodiscard]] Result<std::vector<FoundCheckpoint>> list_checkpoints(const std::string& folder);

/// "DIR/.saving-000050-NAME": the folder that a save writes.
[[nodiscard]] std::string saving_folder(const std::string& folder, std::int64_t step,
                                        const std::string& name);
/// Makes `folder` and its parents. Errors: Environment.
[[nodiscard]] Result<void> make_folder(const std::string& folder);
/// Removes the leftovers of interrupted saves. Errors: Environment.
[[nodiscard]] Result<void> remove_leftovers(const std::string& folder);

/// Removes all checkpoints but the last `keep` (0: removes none). Errors: Environment.
[[nodiscard]] Result<void> remove_older(const std::string& folder, int keep,
                                        const StageObserver& at);

/// Ends a save; the lowest rank calls it. Builds the index from the files of all ranks in `saving`,
/// then renames that folder to the checkpoint's name, replacing a checkpoint of the same step. Then
/// removes all but the last `keep` checkpoints (0: keeps all). Errors: as read_rank_file and
/// make_index; Environment.
[[nodiscard]] Result<void> commit_checkpoint(const std::string& folder, const std::string& saving,
                                             std::int64_t step, int world_size, int keep,
                                             const StageObserver& at);

}  // namespace lockstep::worker
