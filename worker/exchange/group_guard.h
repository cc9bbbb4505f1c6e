// Guards on a value of the whole group (group_any, group_all): an entry whose trace took the
// group's answer serves a call only where the group would answer the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::worker {

/// `predicate` holds on any (on all) of the group's ranks, or not.
struct GroupGuard {
  enum class Over : std::uint8_t { Any, All };
  shapes::Predicate predicate;  // backed symbols only
  Over over = Over::Any;
  bool value = false;  // the group's answer, which the traced branch took
  shapes::Location where;

  /// Of the same condition with the same answer; lines do not count.
  [[nodiscard]] bool same(const GroupGuard& other) const {
    return predicate == other.predicate && over == other.over && value == other.value;
  }
};

/// The group guards of one entry, as calls test them. "All ranks" is a matter of each rank's own
/// vote for the entry; "some rank" takes a witness, asked for in a vote of its own. Immutable.
class GroupGuardProgram {
 public:
  /// `slots` as for GuardProgram.
  [[nodiscard]] static GroupGuardProgram compile(const std::vector<GroupGuard>& guards,
                                                 const std::vector<shapes::Symbol>& slots);
  /// False where this rank's values alone contradict an answer that every rank must bear out.
  [[nodiscard]] bool admits(std::span<const std::int64_t> values) const;
  /// How many answers take a witness.
  [[nodiscard]] std::size_t questions() const { return some_.size(); }
  /// This rank's values are a witness for question `i`.
  [[nodiscard]] bool witnesses(std::size_t i, std::span<const std::int64_t> values) const {
    return some_[i].holds(values);
  }

 private:
  std::vector<shapes::GuardProgram> every_, some_;
};

}  // namespace lockstep::worker
