// The coordinator's side of one connection, without its socket: what came from a stranger or a rank
// goes in, what is to be sent and what becomes of the connection comes out.
#pragma once

#include <optional>
#include <string>

#include <lockstep/coordinator/documents/status_document.h>
#include <lockstep/coordinator/speech/session.h>

namespace lockstep::coordinator {

/// One connection. One thread.
class Connection {
 public:
  Connection(ConnectionId id, Secret secret, const Nonce& nonce)
      : id_(id), session_(Session::Side::Coordinator, std::move(secret), nonce) {}

  struct Outcome {
    Bytes send;
    bool close = false;              // once that is sent
    std::string complaint;           // why it is closed, for the log; may be empty
    std::optional<Refusal> refusal;  // where a frame was
    std::optional<ConnectionId>
        replaced;  // another connection to close: this one speaks for its rank
    bool ending = false;  // to be noted, and answered
  };
  [[nodiscard]] Outcome take(std::span<const std::byte> bytes, Service& service, const About& about,
                             Instant now);
  /// To whoever is at the other end, where it has joined: bytes to send.
  [[nodiscard]] Bytes tell(const Message& message);
  /// The next part of the status document that was asked for; empty where there is none left. To
  /// be called whenever all else is sent, so that a slow reader holds one document, not many.
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
  std::size_t sent_ = 0;  // of document_
};

}  // namespace lockstep::coordinator
