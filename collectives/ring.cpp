#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/collectives/ring.h>
#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {
namespace {

bool is_control(OperationKind kind) {
  return kind == OperationKind::Vote || kind == OperationKind::Exchange;
}

/// True if the operation cannot end before every member of the group has entered it.
bool needs_all(OperationKind kind) {
  return kind == OperationKind::Vote || kind == OperationKind::AllReduce ||
         kind == OperationKind::AllGather || kind == OperationKind::ReduceScatter;
}

/// Which of the candidates for the ring hold up which others.
class Holds {
 public:
  explicit Holds(const BoardSnapshot& board) : board_(board), in_(board.ranks.size()) {
    for (std::size_t r = 0; r < in_.size(); ++r) {
      in_[r] = state(r).waiting && state(r).known && !state(r).carried && !state(r).finished &&
               !state(r).lost;
      if (in_[r]) waiting_.push_back(r);
    }
  }

  /// Removes, until nothing changes, each rank that may go on without the remaining ones.
  void narrow() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::size_t r : waiting_)
        if (in_[r] && !is_held(r)) {
          in_[r] = false;
          changed = true;
        }
    }
  }
  [[nodiscard]] bool in(std::size_t rank) const { return in_[rank]; }
  /// The lowest rank in the ring that `rank` waits for.
  [[nodiscard]] std::size_t next(std::size_t rank) const {
    for (const std::size_t m : waiting_)
      if (in_[m] && is_awaited(rank, m)) return m;
    return rank;
  }

 private:
  [[nodiscard]] const RankState& state(std::size_t rank) const { return board_.ranks[rank]; }

  /// True if `member` has not entered the operation that `rank` waits in: it has begun fewer
  /// operations of the group, or its operation of that number is on the other plane (control or
  /// data).
  [[nodiscard]] bool is_awaited(std::size_t rank, std::size_t member) const {
    const RankState& mine = state(rank);
    const RankState& other = state(member);
    const GroupState* group = board_.group(mine.group);
    if (member == rank || group == nullptr ||
        !group->members.contains(Rank{static_cast<std::int32_t>(member)}))
      return false;
    if (group->begun[member] < mine.ordinal) return true;
    return other.waiting && other.group == mine.group && other.ordinal == mine.ordinal &&
           is_control(other.operation) != is_control(mine.operation);
  }

  [[nodiscard]] bool is_held(std::size_t rank) const {
    const RankState& mine = state(rank);
    const GroupState* group = board_.group(mine.group);
    if (group == nullptr || mine.operation == OperationKind::None) return false;
    std::int64_t holding = 0;
    for (const std::size_t m : waiting_) holding += in_[m] && is_awaited(rank, m);
    return holding > 0 && (needs_all(mine.operation) || holding == group->members.size() - 1);
  }

  const BoardSnapshot& board_;
  std::vector<bool> in_;
  std::vector<std::size_t> waiting_;
};

}  // namespace

std::optional<Ring> find_ring(const BoardSnapshot& board) {
  Holds holds(board);
  holds.narrow();
  Ring ring;
  for (std::size_t r = 0; r < board.ranks.size(); ++r)
    if (holds.in(r))
      ring.members.push_back({Rank{static_cast<std::int32_t>(r)}, board.ranks[r].begun});
  if (ring.members.empty()) return std::nullopt;
  return ring;
}

Status ring_verdict(const BoardSnapshot& board, const Ring& ring, Instant now) {
  Holds holds(board);
  holds.narrow();
  // Each rank of the ring waits for another rank of the ring, so the way returns to a rank seen
  // before.
  std::vector<std::size_t> way;
  auto at = static_cast<std::size_t>(ring.members.front().rank.value);
  auto seen = way.end();
  while ((seen = std::find(way.begin(), way.end(), at)) == way.end()) {
    way.push_back(at);
    at = holds.next(at);
  }
  way.erase(way.begin(), seen);
  constexpr std::size_t kMostSteps = 8;
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < std::min(way.size(), kMostSteps); ++i)
    steps.push_back(fmt::format("rank {} waits in {} for rank {}", way[i],
                                operation_text(board.ranks[way[i]]), way[(i + 1) % way.size()]));
  if (way.size() > kMostSteps) steps.push_back(fmt::format("and {} more", way.size() - kMostSteps));
  return Status{Code::Stuck,
                fmt::format("Ranks wait for each other in a ring, so none can go on: {}. Make all "
                            "ranks enter what they share in one order.",
                            fmt::join(steps, "; ")),
                "", last_seen(board, now)};
}

}  // namespace lockstep::collectives
