#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/census.h>
#include <lockstep/collectives/verdict.h>

namespace lockstep::collectives {
namespace {

std::vector<Rank> each_of(const RankSet& ranks) {
  std::vector<Rank> out;
  for (const RankSet::Run& run : ranks.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) out.push_back(Rank{r});
  return out;
}

/// The ranks whose part in the operation that `rank` waits in is still to come.
RankSet awaited(const BoardSnapshot& board, Rank rank) {
  const RankState& state = board.ranks[static_cast<std::size_t>(rank.value)];
  const GroupState* group = board.group(state.group);
  RankSet out;
  if (!state.waiting || group == nullptr) return out;
  for (const Rank member : each_of(group->members))
    if (group->begun[static_cast<std::size_t>(member.value)] < state.ordinal)
      out.insert(RankSet::of(member));
  return out;
}

/// Whom `rank` waits for: those whose part is still to come or, where all have come, those who are
/// still in the operation with it, for one of them may hold it up.
RankSet held_by(const BoardSnapshot& board, Rank rank) {
  RankSet out = awaited(board, rank);
  const RankState& state = board.ranks[static_cast<std::size_t>(rank.value)];
  const GroupState* group = board.group(state.group);
  if (!out.empty() || !state.waiting || group == nullptr) return out;
  for (const Rank member : each_of(group->members)) {
    const RankState& other = board.ranks[static_cast<std::size_t>(member.value)];
    if (member != rank && other.waiting && other.group == state.group &&
        other.ordinal == state.ordinal)
      out.insert(RankSet::of(member));
  }
  return out;
}

/// Everyone that `self` waits for, directly or through ranks that wait themselves.
RankSet awaited_through_others(const BoardSnapshot& board, Rank self) {
  RankSet reached = RankSet::of(self);
  std::vector<Rank> frontier{self};
  while (!frontier.empty()) {
    const Rank rank = frontier.back();
    frontier.pop_back();
    const RankSet next = held_by(board, rank).minus(reached);
    for (const Rank waited : each_of(next)) frontier.push_back(waited);
    reached.insert(next);
  }
  return reached;
}

std::string ranks_text(const RankSet& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", ranks.text());
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

Status lost(const BoardSnapshot& board, const RankSet& ranks, Instant now) {
  const RankState& first = board.ranks[static_cast<std::size_t>(ranks.lowest().value)];
  return Status{Code::RankLost,
                fmt::format("{} ended without finishing the job (rank {} was process {}; {}); the "
                            "output of that process or the system's log (a signal, no memory, an "
                            "early exit) says why.",
                            capital(ranks_text(ranks)), ranks.lowest().value, first.pid,
                            describe(first, now)),
                "", last_seen(board, now)};
}

/// Ranks whose operation of the same group and number is of another kind than self's.
RankSet elsewhere_at_same_place(const BoardSnapshot& board, Rank self) {
  const RankState& me = board.ranks[static_cast<std::size_t>(self.value)];
  RankSet apart;
  for (std::size_t r = 0; r < board.ranks.size(); ++r) {
    const RankState& other = board.ranks[r];
    if (other.known && other.waiting && other.group == me.group && other.ordinal == me.ordinal &&
        other.operation != me.operation)
      apart.insert(RankSet::of({static_cast<std::int32_t>(r)}));
  }
  return apart;
}

Status stuck(const BoardSnapshot& board, Rank self, const RankSet& named, bool ring, Instant now,
             Duration deadline) {
  const RankState& me = board.ranks[static_cast<std::size_t>(self.value)];
  const double seconds = std::chrono::duration<double>(deadline).count();
  const RankState* first =
      named.empty() ? nullptr : &board.ranks[static_cast<std::size_t>(named.lowest().value)];
  std::string message;
  const RankSet apart = elsewhere_at_same_place(board, self);
  if (named.empty() && !apart.empty())
    message = fmt::format(
        "Ranks took different paths: rank {} is in {}, while {} {} in another operation at the "
        "same "
        "place, so neither can end; nothing has moved for {:g} s.",
        self.value, operation_text(me), ranks_text(apart), apart.size() == 1 ? "is" : "are",
        seconds);
  else if (ring)
    message = fmt::format(
        "Ranks wait for each other and nothing has moved for {:g} s: rank {} is in {}, and {} "
        "{} elsewhere; the table shows which operation each is in.",
        seconds, self.value, operation_text(me), ranks_text(named),
        named.size() == 1 ? "is" : "are");
  else if (named.empty())
    message = fmt::format(
        "All its ranks are in {} and it has not ended for {:g} s; a process may be suspended or "
        "the "
        "network may have failed.",
        operation_text(me), seconds);
  else if (first->finished)
    message = fmt::format("{} {} finished the job and will not come to {}, in which rank {} waits.",
                          capital(ranks_text(named)), named.size() == 1 ? "has" : "have",
                          operation_text(me), self.value);
  else if (first->stopped)
    message = fmt::format(
        "{} {} suspended (SIGSTOP, a debugger, a frozen container) and held up {} for {:g} s while "
        "rank {} waited.",
        capital(ranks_text(named)), named.size() == 1 ? "is" : "are", operation_text(me), seconds,
        self.value);
  else
    message =
        fmt::format("{} did not come to {} and made no progress for {:g} s while rank {} waited.",
                    capital(ranks_text(named)), operation_text(me), seconds, self.value);
  return Status{Code::Stuck, std::move(message), "", last_seen(board, now)};
}

}  // namespace

std::vector<RankValue> last_seen(const BoardSnapshot& board, Instant now) {
  Census census;
  for (std::size_t r = 0; r < board.ranks.size(); ++r)
    census.add(RankSet::of(Rank{static_cast<std::int32_t>(r)}), describe(board.ranks[r], now));
  return census.values();
}

std::optional<Status> judge(const BoardSnapshot& board, const Wait& wait, Instant now,
                            Duration deadline) {
  const auto state_of = [&](Rank rank) -> const RankState& {
    return board.ranks[static_cast<std::size_t>(rank.value)];
  };
  RankSet gone;
  for (const Rank rank : each_of(RankSet::all(static_cast<int>(board.ranks.size()))))
    if (state_of(rank).lost && !state_of(rank).finished) gone.insert(RankSet::of(rank));
  if (!gone.empty()) return lost(board, gone, now);
  if (!wait.since) return std::nullopt;

  // Without anybody to wait for, all members are in this very operation: then they all matter.
  RankSet reached = awaited_through_others(board, wait.self);
  const bool together = awaited(board, wait.self).empty();
  if (const GroupState* group = board.group(state_of(wait.self).group);
      together && group != nullptr)
    reached.insert(group->members);
  RankSet stale, suspended, finished;
  bool all_wait = true, all_stale = true;
  for (const Rank rank : each_of(reached)) {
    const RankState& state = state_of(rank);
    const bool still = now - std::max({*wait.since, state.progress, state.lease}) > deadline;
    // A rank that waits for nobody, yet has not come, is held up by something of its own.
    const bool waits =
        rank == wait.self || (state.waiting && (together || !held_by(board, rank).empty()));
    if (state.finished && !together) finished.insert(RankSet::of(rank));
    if (still && state.stopped) suspended.insert(RankSet::of(rank));
    if (still && !waits) stale.insert(RankSet::of(rank));
    all_wait &= waits;
    all_stale &= still;
  }
  if (!finished.empty()) return stuck(board, wait.self, finished, false, now, deadline);
  const RankSet& named = suspended.empty() ? stale : suspended;
  if (!named.empty()) return stuck(board, wait.self, named, false, now, deadline);
  if (!all_wait || !all_stale) return std::nullopt;
  const RankSet others = together ? RankSet{} : reached.minus(RankSet::of(wait.self));
  return stuck(board, wait.self, others, !together, now, deadline);
}

}  // namespace lockstep::collectives
