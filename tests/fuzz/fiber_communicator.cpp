#include "fiber_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::fuzz {

using collectives::BroadcastRound;
using collectives::TreeRound;
using collectives::Vote;
using collectives::VoteRound;

namespace {

Bytes garbled_copy(std::span<const std::byte> payload, std::uint64_t how) {
  Bytes out(payload.begin(), payload.end());
  const std::size_t at = out.empty() ? 0 : (how / 8) % out.size();
  switch (how % 4) {
    case 0:
      if (!out.empty()) out[at] ^= std::byte{1} << (how / 8 % 8);
      break;
    case 1:
      out.resize(at);
      break;
    case 2:
      out.insert(out.end(), 1 + how % 9, std::byte{0x5a});
      break;
    default:
      out.clear();
  }
  return out;
}

}  // namespace

/// A round that counts what it receives.
class FiberCommunicator::Counted final : public collectives::Round {
 public:
  Counted(collectives::Round& round, FiberCommunicator& owner)
      : round_(round), owner_(owner), bytes_(round.message_bytes()) {
    const auto outgoing = round.outgoing();
    if (bytes_ == sizeof(Vote) && owner.ignored_key_) {
      Vote mine;
      std::memcpy(mine.words.data(), outgoing.data(), sizeof mine);
      if (mine.words[1] == *owner.ignored_key_) {
        own_.assign(outgoing.begin(), outgoing.end());
        real_.emplace(owner.rank(), owner.size(), mine);
      }
    }
    const auto place = collectives::TreePlace::of(owner.rank(), owner.size());
    goes_up_ = place.parent && dynamic_cast<const TreeRound*>(&round) != nullptr;
    corrupt_ = owner.corrupts_ && dynamic_cast<const BroadcastRound*>(&round) != nullptr;
  }
  ~Counted() override {
    Run& run = owner_.run_;
    if (bytes_ == 0) {
      ++run.exchanges;
      run.most_in_exchange = std::max(run.most_in_exchange, messages_);
      owner_.payloads_ += messages_;
      owner_.longest_ = std::max(owner_.longest_, longest_);
      return;
    }
    ++run.votes;
    const auto bound =
        static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(owner_.size() - 1)) + 1);
    if (messages_ > bound) run.most_in_vote = std::max(run.most_in_vote, messages_);
  }

  [[nodiscard]] Want want() const override { return real_ ? real_->want() : round_.want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return bytes_; }
  [[nodiscard]] std::span<const std::byte> outgoing() const override {
    if (real_) return real_->outgoing();
    if (corrupt_ && !round_.outgoing().empty()) {
      payload_.assign(round_.outgoing().begin(), round_.outgoing().end());
      payload_.back() ^= std::byte{1};
      return payload_;
    }
    if (!goes_up_ || !owner_.garble_ || round_.want().need != Need::Send) return round_.outgoing();
    payload_ = garbled_copy(round_.outgoing(), *owner_.garble_);
    return payload_;
  }
  void sent() override {
    if (goes_up_ && owner_.garble_) {
      owner_.garble_.reset();
      owner_.garbled_ = true;
    }
    goes_up_ = false;
    if (real_) real_->sent();
    round_.sent();
  }
  void received(std::span<const std::byte> message) override {
    ++messages_;
    longest_ = std::max<std::uint64_t>(longest_, message.size());
    if (bytes_ != 0) {
      Run& run = owner_.run_;
      run.longest_vote = std::max<std::uint64_t>(run.longest_vote, message.size());
      run.shortest_vote = std::min<std::uint64_t>(run.shortest_vote, message.size());
    }
    if (real_) real_->received(message);
    round_.received(real_ ? std::span<const std::byte>(own_) : message);
  }

 private:
  collectives::Round& round_;
  FiberCommunicator& owner_;
  std::size_t bytes_;              // the round may be gone before this is
  std::optional<VoteRound> real_;  // where the result is ignored
  Bytes own_;
  bool goes_up_ = false, corrupt_ = false;
  mutable Bytes payload_;
  std::uint64_t messages_ = 0, longest_ = 0;
};

FiberCommunicator::FiberCommunicator(collectives::Communicator& network,
                                     std::unique_ptr<Fiber>& fiber, const bool& abandoned, Run& run)
    : network_(network), fiber_(fiber), abandoned_(abandoned), run_(run) {}
FiberCommunicator::~FiberCommunicator() = default;

void FiberCommunicator::start(collectives::Round& round) {
  counted_ = std::make_unique<Counted>(round, *this);
  network_.start(*counted_);
}

Result<void> FiberCommunicator::wait() {
  for (;;) {
    if (abandoned_) throw Abandoned{};
    auto done = network_.poll();
    if (done && !*done) {
      fiber_->yield();
      continue;
    }
    counted_.reset();
    if (done) return {};
    failed_ = true;
    return done.error();
  }
}

}  // namespace lockstep::fuzz
