// The two sides of one connection: a mutual challenge and response over a shared secret, then
// messages sealed with keys of this connection only. Pure: takes bytes; returns messages, and bytes
// to send.
//
//   client                                   server (a coordinator, a rank that listens)
//   Hello     its nonce (32)          ─►
//                                     ◄─     Challenge  its nonce (32)
//   Proof     HMAC over both nonces   ─►     (proves the secret to the server)
//                                     ◄─     Welcome    HMAC over both nonces
//                                            (proves the secret to the client)
//
// The proofs and the two keys, one per direction, are HMAC-SHA256 with the secret over a label for
// each, the version and both nonces. Until both proofs are checked, only nonces and proofs are
// read. On an encrypted connection all of this goes over TLS (tls_channel.h), under a key derived
// from the same secret.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/collectives/wire/sealed_message.h>
#include <lockstep/collectives/wire/secret.h>
#include <lockstep/collectives/wire/tls_channel.h>

namespace lockstep::collectives {

/// One side of one connection. Used by one thread.
class SealedSession {
 public:
  enum class Side { Server, Client };
  /// Requires a secret of kSecretBytes or more, and a nonce that was never used before.
  SealedSession(Side side, Secret secret, const Nonce& nonce,
                Encryption encryption = Encryption::Off);

  /// A client's first message; empty for a server.
  [[nodiscard]] Bytes open();

  struct Taken {
    std::vector<SealedMessage> messages;  // verified: whole, in order, from a holder of the secret
    Bytes reply;                          // bytes to send, among them a server's refusal
    std::optional<Refusal> refusal;       // send the reply, then close
  };
  [[nodiscard]] Taken take(std::span<const std::byte> bytes);
  /// Requires established(), because the other side reads no sealed message before that. Requires a
  /// `type` from kFirstSealedType on and a `payload` of at most kSealedPayloadBytes.
  [[nodiscard]] Bytes seal(std::uint8_t type, std::span<const std::byte> payload);
  /// True once the other side has proven the secret.
  [[nodiscard]] bool established() const { return step_ == Step::Established; }

 private:
  enum class Step { AwaitHello, AwaitChallenge, AwaitProof, AwaitWelcome, Established, Over };
  [[nodiscard]] Taken understand(std::span<const std::byte> bytes);
  [[nodiscard]] Taken refuse(Refusal refusal);
  void encrypt();
  [[nodiscard]] Mac keyed(std::string_view label) const;
  [[nodiscard]] std::optional<Refusal> handshake(const SealedMessage& message, Bytes& reply);
  [[nodiscard]] std::optional<Refusal> greeted(const SealedMessage& message, Bytes& reply);
  [[nodiscard]] std::optional<Refusal> proven(const SealedMessage& message, Bytes& reply);
  void establish();

  Side side_;
  Step step_;
  Secret secret_;
  Nonce nonce_, peer_nonce_{};
  Encryption encryption_;
  std::optional<TlsChannel> tls_;
  bool heard_ = false;  // the other side's first byte has arrived
  SealedMessageReader reader_;
  SealedMessageWriter writer_;
};

}  // namespace lockstep::collectives
