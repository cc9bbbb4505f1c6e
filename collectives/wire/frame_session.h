// The two sides of one connection: a mutual challenge and response over a shared secret, then
// frames under keys that only this connection has. Pure: bytes in; frames, and bytes to send, out.
//
//   client                                   server (a coordinator, a rank that listens)
//   Hello     its nonce (32)          ─►
//                                     ◄─     Challenge  its nonce (32)
//   Proof     HMAC over both          ─►     the secret is known there
//                                     ◄─     Welcome    HMAC over both: and here
//
// The proofs and the two keys, one per direction, are HMAC-SHA256 with the secret over a label of
// their own, the version and both nonces. Nothing but nonces and proofs is read before that.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/collectives/wire/frame.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {

/// One side of one connection. One thread.
class FrameSession {
 public:
  enum class Side { Server, Client };
  /// Requires a secret of kSecretBytes or more, and a nonce that was never used before.
  FrameSession(Side side, Secret secret, const Nonce& nonce);

  /// What a client says first; empty for a server.
  [[nodiscard]] Bytes open() const;

  struct Taken {
    std::vector<Frame> frames;       // verified: whole, in order, of somebody who has the secret
    Bytes reply;                     // to be sent, also where it is refused: then it says why
    std::optional<Refusal> refusal;  // send the reply, then close
  };
  [[nodiscard]] Taken take(std::span<const std::byte> bytes);
  /// Requires established(): its frames are read on the other side only then; a type from
  /// kFirstSealedType on, and a payload within its limit.
  [[nodiscard]] Bytes seal(std::uint8_t type, std::span<const std::byte> payload);
  /// The other side has shown that it knows the secret.
  [[nodiscard]] bool established() const { return step_ == Step::Established; }

 private:
  enum class Step { AwaitHello, AwaitChallenge, AwaitProof, AwaitWelcome, Established, Over };
  [[nodiscard]] Mac keyed(std::string_view label) const;
  [[nodiscard]] std::optional<Refusal> handshake(const Frame& frame, Bytes& reply);
  [[nodiscard]] std::optional<Refusal> greeted(const Frame& frame, Bytes& reply);
  [[nodiscard]] std::optional<Refusal> proven(const Frame& frame, Bytes& reply);
  void establish();

  Side side_;
  Step step_;
  Secret secret_;
  Nonce nonce_, peer_nonce_{};
  FrameReader reader_;
  FrameWriter writer_;
};

}  // namespace lockstep::collectives
