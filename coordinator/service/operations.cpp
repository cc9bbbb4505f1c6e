#include <algorithm>
#include <map>
#include <utility>

#include <lockstep/coordinator/service/operations.h>

namespace lockstep::coordinator {
namespace {

struct Awaited {
  Operation operation;
  Instant told{0};  // when the first report of a wait in the operation arrived
};

bool connected(const Membership& membership, Rank rank) {
  const Member* member = membership.member(rank);
  return member != nullptr && member->connection && !member->finished;
}

std::vector<Awaited> with_their_waiters(const Membership& membership, const Progress& progress) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, Awaited> found;
  for (std::int32_t r = 0; r < progress.size(); ++r) {
    const Seen* seen = progress.seen(Rank{r});
    if (seen == nullptr || !seen->state.waiting || !connected(membership, Rank{r})) continue;
    const RankState& state = seen->state;
    auto [it, fresh] = found.try_emplace({state.group, state.ordinal});
    Awaited& awaited = it->second;
    if (fresh)
      awaited = {.operation = {.kind = state.operation,
                               .group = state.group,
                               .group_name = state.group_name,
                               .ordinal = state.ordinal,
                               .since = state.progress},
                 .told = seen->wait_told};
    awaited.operation.in.insert(Rank{r});
    awaited.operation.since = std::min(awaited.operation.since, state.progress);
    awaited.told = std::min(awaited.told, seen->wait_told);
  }
  std::vector<Awaited> out;
  for (auto& [key, awaited] : found) out.push_back(std::move(awaited));
  std::stable_sort(out.begin(), out.end(), [](const Awaited& a, const Awaited& b) {
    return a.operation.since < b.operation.since;
  });
  if (out.size() > kMostOperations) out.resize(kMostOperations);
  return out;
}

void place(Awaited& awaited, Rank rank, const Seen* seen, bool speaks) {
  Operation& operation = awaited.operation;
  const std::int64_t begun =
      seen != nullptr ? seen->begun(operation.group) : (operation.group == kWorldGroup ? 0 : -1);
  if (begun < 0 || static_cast<std::uint64_t>(begun) > operation.ordinal) return;
  const bool come = static_cast<std::uint64_t>(begun) == operation.ordinal;
  if (come && operation.in.contains(rank)) return;
  if (!speaks || (seen != nullptr && seen->told >= awaited.told))
    (come ? operation.beside : operation.not_in).insert(rank);
  else
    operation.recent = false;
}

}  // namespace

std::string Operation::text() const {
  RankState state;
  state.operation = kind;
  state.group = group;
  state.group_name = group_name;
  state.ordinal = ordinal;
  return operation_text(state);
}

std::vector<Operation> awaited_operations(const Membership& membership, const Progress& progress) {
  std::vector<Awaited> found = with_their_waiters(membership, progress);
  if (found.empty()) return {};
  for (std::int32_t r = 0; r < progress.size(); ++r) {
    const bool speaks = connected(membership, Rank{r});
    for (Awaited& awaited : found) place(awaited, Rank{r}, progress.seen(Rank{r}), speaks);
  }
  std::vector<Operation> out;
  for (Awaited& awaited : found) out.push_back(std::move(awaited.operation));
  return out;
}

}  // namespace lockstep::coordinator
