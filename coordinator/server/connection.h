// The coordinator's side of one connection, without its socket: it takes received bytes, and
// returns bytes to send and whether to close.
#pragma once

#include <optional>
#include <string>

#include <lockstep/coordinator/documents/status_document.h>
#include <lockstep/coordinator/messages/session.h>

namespace lockstep::coordinator {

/// One connection. Used by one thread.
class Connection {
 public:
  /// Other parameters as for SealedSession.
  Connection(ConnectionId id, Secret secret, const Nonce& nonce,
             collectives::Encryption encryption = collectives::Encryption::Off)
      : id_(id), session_(Session::Side::Coordinator, std::move(secret), nonce, encryption) {}

  struct Outcome {
    Bytes send;
    bool close = false;                    // close after `send` is sent
    std::string why_closed;                // for the log; may be empty
    std::optional<Refusal> refusal;        // why a frame was refused
    std::optional<ConnectionId> replaced;  // an earlier connection of the same rank, to be closed
    bool ending = false;  // the rank sent Ending, which must be recorded and answered
  };
  [[nodiscard]] Outcome take(std::span<const std::byte> bytes, Service& service, const About& about,
                             Instant now);
  /// The bytes of a message to the other side; empty unless the other side is a rank that has
  /// joined.
  [[nodiscard]] Bytes tell(const Message& message);
  /// The next part of a requested status document; empty: nothing to send. To be called whenever
  /// everything else is sent, so that at most one part waits for a slow reader.
  [[nodiscard]] Bytes more();
  [[nodiscard]] bool established() const { return session_.established(); }
  [[nodiscard]] ConnectionId id() const { return id_; }

 private:
  void obey(const Message& message, Service& service, const About& about, Instant now,
            Outcome& outcome);
  ConnectionId id_;
  Session session_;
  bool joined_ = false;
  std::optional<std::string> document_;
  std::size_t sent_ = 0;  // bytes of document_ sent so far
};

}  // namespace lockstep::coordinator
