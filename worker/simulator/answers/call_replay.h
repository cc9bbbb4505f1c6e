// One recorded call on all ranks of its group, again.
#pragma once

#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>

namespace lockstep::worker::simulator {

/// What a rank's frames hold, by group and name (RecordedCall::frame).
using FramesOfRank = std::map<std::pair<std::string, std::string>, CodeCache>;

class CallReplay {
 public:
  /// A rank of the group; `call` is null where its record has no such call.
  struct Member {
    Rank rank;
    const RankRecord* record = nullptr;
    const RecordedCall* call = nullptr;
    FramesOfRank* frames = nullptr;
  };

  /// `rounds` has one unit per member. All arguments outlive the replay.
  /// `traces`: takes what the lowest member's come to.
  CallReplay(std::vector<Member> members, const DecisionConfig& config, FoldedRounds& rounds,
             KnownTraces& traces);

  /// Errors: BadInput. A difference ends it early.
  [[nodiscard]] Result<std::optional<Difference>> run();

  /// The machine's outcome on a member that came to its end; nullopt where the record ends before.
  [[nodiscard]] std::optional<CallOutcome> outcome(std::size_t member) const;

 private:
  enum class State : std::uint8_t { Running, AtRound, Done, Lost };
  struct Seat {
    Member member;
    bool one_graph = false;  // its ranks compile the same
    std::size_t cursor = 0;  // next of the recorded events
    State state = State::Lost;
  };

  void advance(std::size_t i);
  void feed(std::size_t i, const Action& action);
  [[nodiscard]] Result<void> round();
  /// The transport gave up on this member in the round it is in.
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
