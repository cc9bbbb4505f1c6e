// The declaration of a group: checks what one rank declares, and whether the declarations of all
// ranks fit together. Pure; the job sends the declarations between the ranks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/tensor/graph/group.h>

namespace lockstep::worker {

/// The group as declared by rank `self` of a job of `size` ranks. `members` empty: the rank takes
/// no part. Errors: BadInput (no name, ranks outside the job, a set without this rank).
[[nodiscard]] Result<Group> declared(std::string name, const RankSet& members, Rank self, int size);

/// One rank's line for the rank table.
[[nodiscard]] std::string declaration(const Group& group);

/// The sets of a group, sorted by lowest rank. The lines of all ranks must make a group: one name,
/// the same set from every rank of a set, and all sets of one size. Errors: ConfigMismatch with the
/// table of all declarations; Internal (a line cannot be read).
[[nodiscard]] Result<std::vector<RankSet>> compare_declarations(
    const std::vector<RankValue>& rank_table);

/// Adds the group `name`, with its sets `own`, to `sets` (the groups declared before it) and to
/// `nesting`.
void nest(const std::string& name, std::vector<RankSet> own,
          std::map<std::string, std::vector<RankSet>>& sets, Nesting& nesting);

}  // namespace lockstep::worker
