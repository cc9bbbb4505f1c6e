// A vote that knows how long this rank waited for its first peer: what a straggler costs, apart
// from what the network costs.
#pragma once

#include <optional>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::worker {

/// One vote, starting now. The clock outlives it.
class TimedVote final : public collectives::Round {
 public:
  TimedVote(collectives::VoteRound vote, const Clock& clock)
      : vote_(std::move(vote)), clock_(clock), start_(clock.now()) {}

  [[nodiscard]] Want want() const override { return vote_.want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return vote_.message_bytes(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return vote_.outgoing(); }
  void sent() override { vote_.sent(); }
  void received(std::span<const std::byte> message) override {
    if (!first_) first_ = clock_.now();
    vote_.received(message);
  }

  [[nodiscard]] const collectives::Vote& result() const { return vote_.result(); }
  /// From the start until the first message was there; zero in a group of one.
  [[nodiscard]] Duration wait() const { return first_.value_or(start_) - start_; }

 private:
  collectives::VoteRound vote_;
  const Clock& clock_;
  Instant start_;
  std::optional<Instant> first_;
};

}  // namespace lockstep::worker
