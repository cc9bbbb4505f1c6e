// A round: one collective exchange of control messages, as a pure state machine. It determines the
// next peer to send to or receive from; a Communicator (MPI, TCP, simulated, fake) moves the bytes.
// The same object code runs in a real job and in a dry run.
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
  /// The length of every message of this round; 0: it varies. Messages of one known length
  /// travel bare; others with a header in front. Pure.
  [[nodiscard]] virtual std::size_t message_bytes() const { return 0; }
  /// The bytes for want().peer; valid until the next call of sent() or received(). While need is
  /// Receive: what this rank holds so far (the fake backend takes it for the peer's).
  [[nodiscard]] virtual std::span<const std::byte> outgoing() const = 0;
  /// The message went out. Requires need Send.
  virtual void sent() = 0;
  /// The peer's message has arrived (and, for Swap, ours went out). Requires need Receive or Swap.
  virtual void received(std::span<const std::byte> message) = 0;
};

}  // namespace lockstep::collectives
