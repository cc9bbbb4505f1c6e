// Guards on an answer of the whole group (group_any, group_all): an entry whose trace used the
// group's answer serves a call only if the group's answer is the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::worker {

/// Guard on whether `predicate` holds on any (or on all) of the group's ranks.
struct GroupGuard {
  enum class Over : std::uint8_t { Any, All };
  shapes::Predicate predicate;  // backed symbols only
  Over over = Over::Any;
  bool value = false;  // the group's answer, which the traced branch took
  shapes::Location where;

  /// True for the same condition with the same answer; `where` is ignored.
  [[nodiscard]] bool same(const GroupGuard& other) const {
    return predicate == other.predicate && over == other.over && value == other.value;
  }
};

/// The group guards of one entry, as calls test them. An answer that must hold on every rank is
/// part of each rank's vote for the entry. An answer that must hold on some rank needs a witness,
/// for which a further vote asks. Immutable.
class GroupGuardProgram {
 public:
  /// `slots` as for GuardProgram.
  [[nodiscard]] static GroupGuardProgram compile(const std::vector<GroupGuard>& guards,
                                                 const std::vector<shapes::Symbol>& slots);
  /// False if this rank's values contradict an answer that must hold on every rank.
  [[nodiscard]] bool admits(std::span<const std::int64_t> values) const;
  /// Number of answers that need a witness.
  [[nodiscard]] std::size_t questions() const { return some_.size(); }
  /// True if this rank's values are a witness for question `i`.
  [[nodiscard]] bool witnesses(std::size_t i, std::span<const std::int64_t> values) const {
    return some_[i].holds(values);
  }

 private:
  std::vector<shapes::GuardProgram> every_, some_;
};

}  // namespace lockstep::worker
