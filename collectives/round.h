// A round: one collective exchange of control messages, as a pure state machine. It says which peer
// to send to or receive from next; a Communicator (MPI, TCP, simulated, fake) moves the bytes. The
// same object code runs in a real job and in a dry run.
#pragma once

#include <cstddef>
#include <span>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

class Round {
 public:
  enum class Need { Send, Receive, Swap, Done };  // Swap: send to and receive from the same peer
  struct Want {
    Need need = Need::Done;
    Rank peer{};
  };

  virtual ~Round() = default;

  /// What this rank does next. Pure.
  [[nodiscard]] virtual Want want() const = 0;
  /// The length of every message of this round; 0: lengths vary. Messages of a fixed length are
  /// sent bare, others after a header. Pure.
  [[nodiscard]] virtual std::size_t message_bytes() const { return 0; }
  /// The bytes for want().peer; valid until the next call of sent() or received(). While need is
  /// Receive: what this rank holds so far, which the fake backend uses as the peer's message.
  [[nodiscard]] virtual std::span<const std::byte> outgoing() const = 0;
  /// To be called when the message was sent. Requires need Send.
  virtual void sent() = 0;
  /// To be called when the peer's message has arrived and, for Swap, this rank's message was sent.
  /// Requires need Receive or Swap.
  virtual void received(std::span<const std::byte> message) = 0;
};

}  // namespace lockstep::collectives
