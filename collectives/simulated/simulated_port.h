// One rank's end of one group of a simulated network: its communicator, with its inbox and the
// operations under way. Used by the simulated backend only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/collectives/simulated/simulated_events.h>

namespace lockstep::collectives {

class SimulatedPort;

/// A rank of the job: the state shared by its groups.
struct SimulatedRank {
  // Fields that every message reads, kept together.
  Instant stopped_from = Instant::max(), stopped_until = Instant::max();
  Instant crashed_at = Instant::max();
  Duration extra{0};
  VirtualNetwork::Traffic traffic;
  std::vector<SimulatedPort*> ports;
  RankState shown;  // its slot of the board
};

/// A group of ranks; the members are in ascending order and numbered by place.
struct SimulatedGroup {
  GroupState state;
  std::vector<std::unique_ptr<SimulatedPort>> ports;
  std::size_t in_collective = 0;
};

/// Advances when the network delivers an event to it.
class SimulatedPort final : public Communicator {
 public:
  SimulatedPort(VirtualNetwork::State& network, SimulatedGroup& group, Rank rank, Rank of_job)
      : network_(network), group_(group), rank_(rank), of_job_(of_job) {}

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_.ports.size()); }
  [[nodiscard]] std::string name() const override { return "simulated"; }
  void start(Round& round) override;
  [[nodiscard]] Result<void> start(const Collective& collective) override;
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override;
  [[nodiscard]] Result<bool> poll() override;
  [[nodiscard]] Result<void> wait() override;

  void deliver(std::uint32_t message);
  /// Advances the round as far as the messages in the inbox allow.
  void advance();
  void data_done();
  void fail(Status status);
  /// Shows this port's operation as the rank's current one on the board.
  void show();
  [[nodiscard]] bool under_way() const { return round_ != nullptr || collective_.has_value(); }
  [[nodiscard]] const std::optional<Collective>& collective() const { return collective_; }
  [[nodiscard]] SimulatedGroup& group() { return group_; }
  [[nodiscard]] Rank of_job() const { return of_job_; }
  [[nodiscard]] Instant started() const { return started_; }
  /// Arrival time of a message to `peer`: `at`, but not before the messages to `peer` that were
  /// sent earlier.
  [[nodiscard]] Instant arrival(Rank peer, Instant at);

  bool timer_posted = false;

 private:
  void begin(OperationKind kind);
  void end();
  [[nodiscard]] Result<void> wait_until(const std::function<bool()>& over);
  [[nodiscard]] bool take_message(Rank from);
  void send(Rank to);

  VirtualNetwork::State& network_;
  SimulatedGroup& group_;
  Rank rank_, of_job_;
  std::uint32_t inbox_first_ = SimulatedMessages::kNone, inbox_last_ = SimulatedMessages::kNone;
  Round* round_ = nullptr;
  bool swap_sent_ = false;
  /// Receivers and arrival times of messages that were under way when the last message was sent.
  std::vector<std::pair<Rank, Instant>> on_the_way_;
  std::optional<Collective> collective_;
  std::optional<Status> failure_;
  OperationKind operation_ = OperationKind::None;  // the last operation begun here
  Instant started_{0};
};

}  // namespace lockstep::collectives
