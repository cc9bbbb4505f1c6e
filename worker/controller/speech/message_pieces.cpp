#include <algorithm>
#include <cstdint>
#include <utility>

#include <lockstep/worker/controller/speech/message_pieces.h>

namespace lockstep::worker {
namespace {

/// Types of sealed messages. No coordinator and no rank takes them.
constexpr std::uint8_t kPiece = 96, kLastPiece = 97;

}  // namespace

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
