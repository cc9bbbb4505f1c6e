// The declaration of a group: what one rank may say, and whether what all ranks say fits together.
// Pure; the job facade moves the declarations between the ranks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/graph/group.h>

namespace lockstep::worker {

/// The group as rank `self` of a job of `size` sees it. An empty set: it takes no part.
/// Errors: BadInput (no name, ranks outside the job, a set without this rank).
[[nodiscard]] Result<Group> declared(std::string name, const RankSet& members, Rank self, int size);

/// One rank's line for the rank table.
[[nodiscard]] std::string declaration(const Group& group);

/// The sets of a group, by lowest rank, if the lines of all ranks make one: one name, every rank of
/// a set gives that very set, all sets of one size. Errors: ConfigMismatch with the table of who
/// gave what; Internal (a line cannot be read).
[[nodiscard]] Result<std::vector<RankSet>> compare_declarations(
    const std::vector<RankValue>& rank_table);

/// Adds a group to those declared before it, `sets`, which it joins, and to what is within what.
void nest(const std::string& name, std::vector<RankSet> own,
          std::map<std::string, std::vector<RankSet>>& sets, Nesting& nesting);

}  // namespace lockstep::worker
