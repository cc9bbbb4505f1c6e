// Snapshots of a progress board by hand: for tests of what they are judged to mean.
#pragma once

#include <map>
#include <string>

#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {

/// A board of ranks that all belong to the world, written as a story.
class Story {
 public:
  explicit Story(int size) : board_{std::vector<RankState>(static_cast<std::size_t>(size)), {}} {
    for (RankState& rank : board_.ranks) rank.known = true;
    add_group(kWorldGroup, RankSet::all(size));
  }
  void add_group(std::uint64_t id, const RankSet& members, const std::string& name = {}) {
    names_[id] = name;
    board_.groups.push_back({id, members, std::vector<std::uint64_t>(board_.ranks.size())});
  }
  RankState& rank(int r) { return board_.ranks[static_cast<std::size_t>(r)]; }
  /// Rank r begins operation `ordinal` of the group at `at` and waits in it.
  void waits(int r, OperationKind kind, std::uint64_t ordinal, Instant at,
             std::uint64_t group = kWorldGroup) {
    RankState& state = rank(r);
    state.waiting = true;
    state.operation = kind;
    state.group = group;
    state.group_name = names_[group];
    state.ordinal = ordinal;
    state.progress = at;
    ++state.begun;
    for (GroupState& g : board_.groups)
      if (g.id == group) g.begun[static_cast<std::size_t>(r)] = ordinal;
  }
  /// Rank r did that and went on with its own work at `at`.
  void did(int r, OperationKind kind, std::uint64_t ordinal, Instant at,
           std::uint64_t group = kWorldGroup) {
    waits(r, kind, ordinal, at, group);
    rank(r).waiting = false;
  }
  [[nodiscard]] std::optional<Status> verdict(int self, std::optional<Instant> since,
                                              Instant now) const {
    const auto judged = judgement(self, since, now);
    return judged ? std::optional(judged->status) : std::nullopt;
  }
  [[nodiscard]] std::optional<Judgement> judgement(int self, std::optional<Instant> since,
                                                   Instant now) const {
    return judge(board_, {Rank{self}, since}, now, std::chrono::seconds(60));
  }
  [[nodiscard]] const BoardSnapshot& board() const { return board_; }

 private:
  BoardSnapshot board_;
  std::map<std::uint64_t, std::string> names_;
};

}  // namespace lockstep::collectives
