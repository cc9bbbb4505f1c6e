// A group of ranks as a program names it: in the options of a frame, and in collectives. Made by
// Job::group.
#pragma once

#include <map>
#include <set>
#include <string>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker {

/// Some ranks of a job, under a name that says what they share ("tensor", "expert"). Several sets
/// of ranks may have one name; each set is a group of its own. Value type.
struct Group {
  /// Empty: the default. For a frame that is all ranks of the job, for a collective the group of
  /// its frame.
  std::string name;
  RankSet members;  // ranks of the job; empty: this rank is in none of the sets
  Rank rank{};      // this rank's place among the members

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] bool empty() const { return members.empty(); }
  /// "tensor [0-1]": distinguishes the sets of one name.
  [[nodiscard]] std::string label() const { return name + " [" + members.text() + "]"; }
  bool operator==(const Group&) const = default;
};

/// Maps the name of a group to the names of the groups within it: each set of ranks of an inner
/// name lies in one set of the outer name.
using Nesting = std::map<std::string, std::set<std::string>>;

}  // namespace lockstep::worker
