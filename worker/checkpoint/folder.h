// The folder of a job's checkpoints: what stands in it, and what is left of saves that were cut
// off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/checkpoint/index.h>
#include <lockstep/worker/checkpoint/stage.h>

namespace lockstep::worker {

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::string folder;  // its path
};

/// "step-000050"
[[nodiscard]] std::string step_folder_name(std::int64_t step);
/// nullopt: no checkpoint has that name.
[[nodiscard]] std::optional<std::int64_t> step_of_folder(const std::string& name);

/// All folders with the name of a checkpoint, by step. A folder gets such a name only when it is
/// complete. Errors: BadInput (there is no such folder), Environment.
[[nodiscard]] Result<std::vector<FoundCheckpoint>> list_checkpoints(const std::string& folder);

/// "DIR/.saving-000050-NAME": where a save is written.
[[nodiscard]] std::string saving_folder(const std::string& folder, std::int64_t step,
                                        const std::string& name);
/// Makes `folder` with those above it. Errors: Environment.
[[nodiscard]] Result<void> make_folder(const std::string& folder);
/// Removes what saves that were cut off have left. Errors: Environment.
[[nodiscard]] Result<void> remove_leftovers(const std::string& folder);

/// Of all checkpoints the last `keep` stay (0: all). Errors: Environment.
[[nodiscard]] Result<void> remove_older(const std::string& folder, int keep,
                                        const StageObserver& at);

/// The end of a save, by the lowest rank: makes the index of what all ranks have written to
/// `saving`, and gives that folder the name of the checkpoint, in place of one of the same step;
/// then `keep` checkpoints stay, the last ones (0: all). Errors: as make_index; Environment.
[[nodiscard]] Result<void> commit_checkpoint(const std::string& folder, const std::string& saving,
                                             std::int64_t step, int world_size, int keep,
                                             const StageObserver& at);

}  // namespace lockstep::worker
