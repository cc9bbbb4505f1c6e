// The communicator of a fiber: waits by letting other fibers run. Counts what rounds receive, and
// garbles payloads on request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "fiber.h"
#include "run.h"

#include <lockstep/collectives/communicator.h>

namespace lockstep::fuzz {

/// Thrown out of a wait that will never end, so that what is on the stack of a dead rank goes.
struct Abandoned {};

class FiberCommunicator final : public collectives::Communicator {
 public:
  /// All outlive it. `abandoned` turns true when the rank is out of the job.
  FiberCommunicator(collectives::Communicator& network, std::unique_ptr<Fiber>& fiber,
                    const bool& abandoned, Run& run);
  ~FiberCommunicator() override;

  [[nodiscard]] Rank rank() const override { return network_.rank(); }
  [[nodiscard]] int size() const override { return network_.size(); }
  [[nodiscard]] std::string name() const override { return network_.name(); }
  void start(collectives::Round& round) override;
  [[nodiscard]] Result<void> start(const collectives::Collective& collective) override {
    return network_.start(collective);
  }
  [[nodiscard]] Result<bool> poll() override { return network_.poll(); }
  [[nodiscard]] Result<void> wait() override;
  using Communicator::run;
  [[nodiscard]] Result<void> run(const collectives::Collective& collective) override {
    if (auto started = start(collective); !started) return started;
    return wait();
  }

  /// The next payload of this rank's own that goes up a tree is garbled in the manner of `how`.
  void garble(std::optional<std::uint64_t> how) { garble_ = how; }
  /// Whether that has happened.
  [[nodiscard]] bool garbled() const { return garbled_; }
  /// While so, what this rank sends in a broadcast is altered.
  void corrupt(bool corrupts) { corrupts_ = corrupts; }
  /// Votes with this key come out as this rank's own vote, here only.
  void ignore(std::optional<std::uint64_t> key) { ignored_key_ = key; }
  /// Payload messages received since the last call.
  [[nodiscard]] std::uint64_t take_payloads() { return std::exchange(payloads_, 0); }
  /// The longest of them, in bytes.
  [[nodiscard]] std::uint64_t take_longest() { return std::exchange(longest_, 0); }
  /// The network gave up on a wait since the last call.
  [[nodiscard]] bool take_failed() { return std::exchange(failed_, false); }

 private:
  class Counted;
  collectives::Communicator& network_;
  std::unique_ptr<Fiber>& fiber_;
  const bool& abandoned_;
  Run& run_;
  std::unique_ptr<Counted> counted_;
  std::optional<std::uint64_t> garble_, ignored_key_;
  bool garbled_ = false, failed_ = false, corrupts_ = false;
  std::uint64_t payloads_ = 0, longest_ = 0;
};

}  // namespace lockstep::fuzz
