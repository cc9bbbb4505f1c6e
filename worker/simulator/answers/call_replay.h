// Replay of one recorded call on all ranks of its group.
#pragma once

#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>

namespace lockstep::worker::simulator {

/// Frames of a rank, by group and name (RecordedCall::frame).
using FramesOfRank = std::map<std::pair<std::string, std::string>, CodeCache>;

class CallReplay {
 public:
  /// A rank of the group. `call` is null if the rank's record lacks the call.
  struct Member {
    Rank rank;
    const RankRecord* record = nullptr;
    const RecordedCall* call = nullptr;
    FramesOfRank* frames = nullptr;
  };

  /// `rounds` has one unit per member. `traces` receives the results of the lowest member's traces.
  /// All arguments outlive the replay.
  CallReplay(std::vector<Member> members, const DecisionConfig& config, FoldedRounds& rounds,
             KnownTraces& traces);

  /// Returns the first difference, at which the replay ends; nullopt: there is none. Errors:
  /// BadInput.
  [[nodiscard]] Result<std::optional<Difference>> run();

  /// Outcome of the member's call; nullopt if the member's record ends before the call does.
  [[nodiscard]] std::optional<CallOutcome> outcome(std::size_t member) const;

 private:
  enum class State : std::uint8_t { Running, AtRound, Done, Lost };
  struct Seat {
    Member member;
    bool one_graph = false;  // the call's ranks compile the same graph
    std::size_t cursor = 0;  // index of the next recorded event
    State state = State::Lost;
  };

  void advance(std::size_t i);
  void feed(std::size_t i, const Action& action);
  [[nodiscard]] Result<void> round();
  /// True if the transport gave up on this member in its current round.
  [[nodiscard]] bool gave_up(const Seat& seat, bool all_there) const;
  void differ(const Seat& seat, int line, std::string recorded, std::string replayed);
  void stand_alone(const Seat& seat, int line);
  void contradict(const Seat& seat, int line, std::string_view what);

  std::vector<Seat> seats_;
  std::vector<std::unique_ptr<CallMachine>> machines_;
  FoldedRounds& rounds_;
  KnownTraces& traces_;
  std::optional<Difference> difference_;
  std::optional<Status> error_;
};

}  // namespace lockstep::worker::simulator
