#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include <lockstep/collectives/wire/hmac.h>
#include <lockstep/worker/controller/messages/message_pieces.h>

namespace lockstep::worker {
namespace {

/// Types of sealed messages. Coordinators and ranks do not accept them.
constexpr std::uint8_t kPiece = 96, kLastPiece = 97;

}  // namespace

collectives::Secret secret_of_controllers(const collectives::Secret& shared) {
  constexpr std::string_view kLabel = "lockstep controller";
  const collectives::Mac mac = collectives::hmac_sha256(shared, std::as_bytes(std::span(kLabel)));
  return {mac.begin(), mac.end()};
}

Bytes seal_message(collectives::SealedSession& session, std::span<const std::byte> message) {
  Bytes out;
  do {
    const auto piece = message.first(std::min(message.size(), collectives::kSealedPayloadBytes));
    message = message.subspan(piece.size());
    const Bytes sealed = session.seal(message.empty() ? kLastPiece : kPiece, piece);
    out.insert(out.end(), sealed.begin(), sealed.end());
  } while (!message.empty());
  return out;
}

PieceJoiner::Taken PieceJoiner::take(const collectives::SealedMessage& piece) {
  using collectives::Refusal;
  if (piece.type != kPiece && piece.type != kLastPiece) return {std::nullopt, Refusal::Order};
  if (piece.payload.size() > most_ - so_far_.size()) return {std::nullopt, Refusal::Size};
  so_far_.insert(so_far_.end(), piece.payload.begin(), piece.payload.end());
  if (piece.type == kPiece) return {};
  return {std::exchange(so_far_, {}), std::nullopt};
}

}  // namespace lockstep::worker
