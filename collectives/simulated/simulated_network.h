// The internals of the simulated network: ranks, groups, virtual time, events to come. Used by the
// simulated backend only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/collectives/simulated/simulated_port.h>

namespace lockstep::collectives {

class VirtualNetwork::State {
 public:
  explicit State(const NetworkOptions& options);

  [[nodiscard]] SimulatedGroup& group(const RankSet& members);
  [[nodiscard]] SimulatedRank& rank(Rank rank) {
    return ranks_[static_cast<std::size_t>(rank.value)];
  }
  [[nodiscard]] Instant now() const { return clock_.now(); }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] const NetworkOptions& options() const { return options_; }
  [[nodiscard]] Duration delay();
  [[nodiscard]] bool crashed(Rank rank) const;
  [[nodiscard]] bool frozen(Rank rank) const;

  void post(const SimulatedEvent& event) { events_.post(event, now()); }
  void post_message(SimulatedPort& from, Rank to, bool bare, std::span<const std::byte> body);
  void post_call(Instant at, std::function<void()> then);
  [[nodiscard]] SimulatedMessages& messages() { return messages_; }
  /// Posts the event of the next look at a waiting port.
  void post_timer(SimulatedPort& port);
  void crash(Rank rank, Instant at);
  /// Called when a rank is gone, by a crash or a clean exit: posts a look at each waiting port.
  void gone();
  /// Notes progress of the rank.
  void moved(SimulatedRank& rank) {
    rank.shown.progress = now();
    ++moves_;
  }
  /// Carries out the group's collective once all ranks have entered it.
  void contribute(SimulatedGroup& group);
  bool step();
  [[nodiscard]] BoardSnapshot board() const;
  void record(std::string line) {
    if (options_.record) log_.push_back(std::move(line));
  }
  [[nodiscard]] bool recording() const { return options_.record; }
  void ended(Rank rank) { ended_.push_back(rank); }
  /// The error that ended the job; nullopt: none has.
  [[nodiscard]] const std::optional<Status>& verdict() const { return verdict_; }
  [[nodiscard]] const RankSet& culprits() const { return culprits_; }

  [[nodiscard]] std::vector<Rank> take_ended() { return std::exchange(ended_, {}); }
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

 private:
  void dispatch(const SimulatedEvent& event);
  void log_event(const SimulatedEvent& event);
  void look_at(SimulatedPort& port);
  [[nodiscard]] Instant next_due();
  void resume(Rank rank);
  template <class Visit>
  void each_under_way(Visit visit);

  NetworkOptions options_;
  std::uint64_t random_;
  ManualClock clock_;
  SimulatedEvents events_;
  SimulatedMessages messages_;
  SimulatedCalls calls_;
  std::vector<SimulatedRank> ranks_;
  std::map<std::vector<RankSet::Run>, std::unique_ptr<SimulatedGroup>> group_of_;
  std::vector<SimulatedGroup*> groups_;  // in order of creation
  std::vector<Rank> ended_;
  std::vector<std::string> log_;
  std::optional<Status> verdict_;
  RankSet culprits_;  // of the verdict
  bool any_gone_ = false;
  Instant first_crash_ = Instant::max();
  // due_ is the last result of next_due(), valid while it lies in the future and moves_ ==
  // due_moves_.
  std::uint64_t moves_ = 0, due_moves_ = 0;
  Instant due_{0};
};

}  // namespace lockstep::collectives
