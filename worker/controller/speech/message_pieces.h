// Messages of any length over a sealed session, whose own are short: a message goes in pieces, each
// sealed, the last one marked.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/wire/sealed_session.h>

namespace lockstep::worker {

/// What both sides use in place of the secret that they were told: who speaks to a coordinator or
/// to ranks with that one is not taken for a controller.
[[nodiscard]] collectives::Secret secret_of_controllers(const collectives::Secret& shared);

/// The pieces of the message, sealed, one behind the other. Requires an established session, and
/// at most kMostMessageBytes.
[[nodiscard]] Bytes seal_message(collectives::SealedSession& session,
                                 std::span<const std::byte> message);

/// Puts the pieces together. Holds no more than has come, and at most `most` bytes of one message.
class PieceJoiner {
 public:
  explicit PieceJoiner(std::size_t most) : most_(most) {}
  /// A message that the piece completes; a refusal for a piece that has no place.
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
