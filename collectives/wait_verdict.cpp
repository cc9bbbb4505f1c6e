#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/census.h>
#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {
namespace {

/// Shortest silence that counts as out of reach. When the speaker of a host is suspended, the other
/// ranks of that host are silent for about half as long.
constexpr std::chrono::seconds kOutOfReach{3};

/// The ranks that have not entered the operation that `rank` waits in.
RankSet awaited(const BoardSnapshot& board, Rank rank) {
  const RankState& state = board.ranks[static_cast<std::size_t>(rank.value)];
  const GroupState* group = board.group(state.group);
  RankSet out;
  if (!state.waiting || group == nullptr) return out;
  for (const Rank member : group->members)
    if (group->begun[static_cast<std::size_t>(member.value)] < state.ordinal) out.insert(member);
  return out;
}

/// The ranks that `rank` waits for: those that have not entered its operation. If all have entered,
/// it waits for the other ranks that are still in the operation, and for suspended ranks, which may
/// have entered only by a vote cast ahead.
RankSet held_by(const BoardSnapshot& board, Rank rank) {
  RankSet out = awaited(board, rank);
  const RankState& state = board.ranks[static_cast<std::size_t>(rank.value)];
  const GroupState* group = board.group(state.group);
  if (!out.empty() || !state.waiting || group == nullptr) return out;
  for (const Rank member : group->members) {
    const RankState& other = board.ranks[static_cast<std::size_t>(member.value)];
    const bool in_it =
        other.waiting && other.group == state.group && other.ordinal == state.ordinal;
    if (member != rank && (in_it || other.stopped)) out.insert(member);
  }
  return out;
}

/// `self` and all ranks that it waits for, directly or through ranks that wait themselves.
RankSet awaited_through_others(const BoardSnapshot& board, Rank self) {
  RankSet reached = RankSet::of(self);
  std::vector<Rank> frontier{self};
  while (!frontier.empty()) {
    const Rank rank = frontier.back();
    frontier.pop_back();
    const RankSet next = held_by(board, rank).minus(reached);
    for (const Rank waited : next) frontier.push_back(waited);
    reached.insert(next);
  }
  return reached;
}

Status lost(const BoardSnapshot& board, const RankSet& ranks, Instant now) {
  const RankState& first = board.ranks[static_cast<std::size_t>(ranks.lowest().value)];
  return Status{
      Code::RankLost,
      fmt::format("{} ended without finishing the job (rank {} was process {}; {}); the "
                  "output of that process or the system's log (a signal, no memory, an "
                  "early exit) says why.",
                  capital(ranks.phrase()), ranks.lowest().value, first.pid, describe(first, now)),
      "", last_seen(board, now)};
}

/// Ranks that wait in an operation with the group and number of self's operation but of another
/// kind.
RankSet elsewhere_at_same_place(const BoardSnapshot& board, Rank self) {
  const RankState& me = board.ranks[static_cast<std::size_t>(self.value)];
  RankSet apart;
  for (std::size_t r = 0; r < board.ranks.size(); ++r) {
    const RankState& other = board.ranks[r];
    if (other.known && other.waiting && other.group == me.group && other.ordinal == me.ordinal &&
        other.operation != me.operation)
      apart.insert(Rank{static_cast<std::int32_t>(r)});
  }
  return apart;
}

/// "Ranks 1-2 held up operation 5 (vote) for 60 s while rank 0 waited: rank 1 is suspended, ..."
std::string hold_up_text(const RankState& me, Rank self, const RankSet& suspended,
                         const RankSet& silent, const RankSet& both, double seconds) {
  constexpr const char* kHow = "suspended (SIGSTOP, a debugger, a frozen container)";
  const char* are = suspended.size() == 1 ? "is" : "are";
  if (silent.empty())
    return fmt::format("{} {} {} and held up {} for {:g} s while rank {} waited.",
                       capital(suspended.phrase()), are, kHow, operation_text(me), seconds,
                       self.value);
  if (suspended.empty())
    return fmt::format(
        "{} did not come to {} and made no progress for {:g} s while rank {} waited.",
        capital(silent.phrase()), operation_text(me), seconds, self.value);
  return fmt::format(
      "{} held up {} for {:g} s while rank {} waited: {} {} {}, {} did not come and made no "
      "progress.",
      capital(both.phrase()), operation_text(me), seconds, self.value, suspended.phrase(), are,
      kHow, silent.phrase());
}

/// The text of the error if no rank is to blame for the wait: all of `others` wait, too. If
/// `others` is empty, all members of the group wait.
std::string deadlock_text(const BoardSnapshot& board, Rank self, const RankSet& others,
                          double seconds) {
  const RankState& me = board.ranks[static_cast<std::size_t>(self.value)];
  if (!others.empty())
    return fmt::format(
        "Ranks wait for each other and nothing has moved for {:g} s: rank {} is in {}, and {} {} "
        "elsewhere; the table shows which operation each is in.",
        seconds, self.value, operation_text(me), others.phrase(),
        others.size() == 1 ? "is" : "are");
  const RankSet apart = elsewhere_at_same_place(board, self);
  if (!apart.empty())
    return fmt::format(
        "Ranks took different paths: rank {} is in {}, while {} {} in another operation at the "
        "same place, so neither can end; nothing has moved for {:g} s.",
        self.value, operation_text(me), apart.phrase(), apart.size() == 1 ? "is" : "are", seconds);
  return fmt::format(
      "All its ranks are in {} and it has not ended for {:g} s; a process may be suspended or the "
      "network may have failed.",
      operation_text(me), seconds);
}

/// One look at the board, about the wait of rank `self`.
struct Look {
  const BoardSnapshot& board;
  Rank self;
  Instant since;
  Instant now;
  Duration deadline;

  [[nodiscard]] const RankState& state(Rank rank) const {
    return board.ranks[static_cast<std::size_t>(rank.value)];
  }
  /// True if `rank`, within this wait, has had neither progress nor a lease for `deadline`.
  [[nodiscard]] bool still(Rank rank) const {
    return now - std::max({since, state(rank).progress, state(rank).lease}) > deadline;
  }
  /// True if `rank` and all ranks in its operation are still: nothing has moved since the last rank
  /// entered.
  [[nodiscard]] bool operation_still(Rank rank) const {
    const RankSet with = held_by(board, rank);
    return still(rank) && std::all_of(with.begin(), with.end(), [&](Rank r) { return still(r); });
  }
  /// True if `rank` is known to have been alive late in this wait. A rank of another host must have
  /// sent a message later than half of `deadline` after the wait began: after an older message it
  /// may have been suspended.
  [[nodiscard]] bool heard(Rank rank) const {
    return !state(rank).carried || state(rank).beat > since + deadline / 2;
  }
  /// True if `rank` is on another host and, for most of the deadline, has sent no news and held no
  /// lease.
  [[nodiscard]] bool out_of_reach(Rank rank) const {
    return state(rank).carried && std::max(state(rank).beat, state(rank).lease) <=
                                      now - std::max<Duration>(deadline * 3 / 4, kOutOfReach);
  }
};

/// Ranks to blame, of those that a wait depends on.
struct Findings {
  RankSet finished, suspended, silent;
  bool all_wait = true, all_still = true;
};

/// Finds the ranks to blame among `reached`. `together`: all of `reached` have entered the
/// operation of look.self.
Findings findings(const Look& look, const RankSet& reached, bool together) {
  Findings found;
  for (const Rank rank : reached) {
    const RankState& state = look.state(rank);
    // A rank that has not entered self's operation, and whose own wait needs no other rank, counts
    // as not waiting.
    const bool waits =
        rank == look.self || (state.waiting && (together || !held_by(look.board, rank).empty()));
    if (state.finished && !together) found.finished.insert(rank);
    if (!waits && look.still(rank)) (state.stopped ? found.suspended : found.silent).insert(rank);
    // A suspended rank may hold up the ranks of an operation that all have entered.
    if (waits && state.stopped && awaited(look.board, rank).empty() && look.operation_still(rank))
      found.suspended.insert(rank);
    found.all_wait &= waits;
    found.all_still &= look.still(rank) && look.heard(rank);
  }
  // Names all ranks out of reach: the ranks of one host fall silent at slightly different times.
  if (!together && !found.silent.empty())
    for (const Rank rank : reached)
      if (look.out_of_reach(rank)) found.silent.insert(rank);
  return found;
}

}  // namespace

std::vector<RankValue> last_seen(const BoardSnapshot& board, Instant now) {
  Census census;
  for (std::size_t r = 0; r < board.ranks.size(); ++r)
    census.add(RankSet::of(Rank{static_cast<std::int32_t>(r)}), describe(board.ranks[r], now));
  return census.values();
}

std::optional<Judgement> judge(const BoardSnapshot& board, const Wait& wait, Instant now,
                               Duration deadline) {
  RankSet gone;
  for (const Rank rank : RankSet::all(static_cast<int>(board.ranks.size()))) {
    const RankState& state = board.ranks[static_cast<std::size_t>(rank.value)];
    if (state.lost && !state.finished) gone.insert(rank);
  }
  if (!gone.empty()) return Judgement{lost(board, gone, now), gone};
  if (!wait.since) return std::nullopt;

  const Look look{board, wait.self, *wait.since, now, deadline};
  // If all members have entered this rank's operation, all of them matter.
  RankSet reached = awaited_through_others(board, wait.self);
  const bool together = awaited(board, wait.self).empty();
  if (const GroupState* group = board.group(look.state(wait.self).group);
      together && group != nullptr)
    reached.insert(group->members);
  const Findings found = findings(look, reached, together);
  const double seconds = std::chrono::duration<double>(deadline).count();
  const RankState& me = look.state(wait.self);
  const auto stuck = [&](std::string message, RankSet culprits) {
    return Judgement{{Code::Stuck, std::move(message), "", last_seen(board, now)},
                     std::move(culprits)};
  };
  if (!found.finished.empty())
    return stuck(
        fmt::format("{} {} finished the job and will not come to {}, in which rank {} waits.",
                    capital(found.finished.phrase()), found.finished.size() == 1 ? "has" : "have",
                    operation_text(me), wait.self.value),
        found.finished);
  RankSet still = found.suspended;
  still.insert(found.silent);
  if (!still.empty())
    return stuck(hold_up_text(me, wait.self, found.suspended, found.silent, still, seconds), still);
  if (!found.all_wait || !found.all_still) return std::nullopt;
  const RankSet others = together ? RankSet{} : reached.minus(RankSet::of(wait.self));
  return stuck(deadlock_text(board, wait.self, others, seconds), {});
}

}  // namespace lockstep::collectives
