#include <algorithm>

#include <lockstep/worker/agree/exchange/group_guard.h>

namespace lockstep::worker {

GroupGuardProgram GroupGuardProgram::compile(const std::vector<GroupGuard>& guards,
                                             const std::vector<shapes::Symbol>& slots) {
  GroupGuardProgram program;
  for (const GroupGuard& guard : guards) {
    // If "any" is false, the condition is false on every rank; if "all" is false, it is false on
    // some.
    const shapes::Predicate holds = guard.value ? guard.predicate : guard.predicate.negated();
    const bool some = (guard.over == GroupGuard::Over::Any) == guard.value;
    auto& list = some ? program.some_ : program.every_;
    list.push_back(shapes::GuardProgram::compile({{holds, guard.where}}, slots));
  }
  return program;
}

bool GroupGuardProgram::admits(std::span<const std::int64_t> values) const {
  return std::all_of(every_.begin(), every_.end(),
                     [&](const shapes::GuardProgram& p) { return p.holds(values); });
}

}  // namespace lockstep::worker
