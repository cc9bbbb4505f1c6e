// Messages of any length over a sealed session, whose messages are short: each message is split
// into sealed pieces, the last one marked.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/wire/sealed_session.h>

namespace lockstep::worker {

/// Derives the controllers' secret from the shared one, so that a peer that uses the shared secret
/// itself (for a coordinator or for ranks) cannot pass for a controller.
[[nodiscard]] collectives::Secret secret_of_controllers(const collectives::Secret& shared);

/// Returns the sealed pieces of the message, concatenated. Requires an established session, and at
/// most kMostMessageBytes.
[[nodiscard]] Bytes seal_message(collectives::SealedSession& session,
                                 std::span<const std::byte> message);

/// Joins the pieces. Holds only received bytes, at most `most` of one message.
class PieceJoiner {
 public:
  explicit PieceJoiner(std::size_t most) : most_(most) {}
  /// The message that the piece completes, or a refusal of a piece that is not allowed.
  struct Taken {
    std::optional<Bytes> message;
    std::optional<collectives::Refusal> refusal;
  };
  [[nodiscard]] Taken take(const collectives::SealedMessage& piece);

 private:
  std::size_t most_;
  Bytes so_far_;
};

}  // namespace lockstep::worker
