// One side of a connection to a coordinator. Turns the payloads of a sealed session
// (collectives/wire/sealed_session.h) into messages, and checks that the other side may send them.
// Pure.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/wire/sealed_session.h>
#include <lockstep/coordinator/messages/message.h>

namespace lockstep::coordinator {

using collectives::Nonce;
using collectives::Refusal;
using collectives::Secret;

/// One side of one connection. Single-threaded.
class Session {
 public:
  enum class Side { Coordinator, Client };
  /// Parameters as for SealedSession.
  Session(Side side, Secret secret, const Nonce& nonce,
          collectives::Encryption encryption = collectives::Encryption::Off);

  /// The first bytes of a client; empty for a coordinator.
  [[nodiscard]] Bytes open() { return session_.open(); }

  struct Taken {
    std::vector<Message> messages;
    Bytes reply;                     // bytes to send; after a refusal they hold the reason
    std::optional<Refusal> refusal;  // send the reply, then close
  };
  [[nodiscard]] Taken take(std::span<const std::byte> bytes);
  /// Requires established(), since only then the other side reads messages.
  [[nodiscard]] Bytes seal(const Message& message);
  /// True once the other side has proven that it knows the secret.
  [[nodiscard]] bool established() const { return !over_ && session_.established(); }

 private:
  Side side_;
  collectives::SealedSession session_;
  bool over_ = false;  // a message was refused
};

}  // namespace lockstep::coordinator
