#include <utility>

#include <lockstep/coordinator/messages/session.h>

namespace lockstep::coordinator {
namespace {

/// Each side accepts only the messages that the other side may send.
bool has_place(Session::Side side, const Message& message) {
  const bool from_client = type_of(message) < MessageType::Joined;
  return from_client == (side == Session::Side::Coordinator);
}

}  // namespace

Session::Session(Side side, Secret secret, const Nonce& nonce, collectives::Encryption encryption)
    : side_(side),
      session_(side == Side::Client ? collectives::SealedSession::Side::Client
                                    : collectives::SealedSession::Side::Server,
               std::move(secret), nonce, encryption) {}

Session::Taken Session::take(std::span<const std::byte> bytes) {
  Taken taken;
  if (over_) {
    taken.refusal = Refusal::Order;
    return taken;
  }
  auto [sealed, reply, refusal] = session_.take(bytes);
  taken.reply = std::move(reply);
  for (const collectives::SealedMessage& one : sealed) {
    auto message = decode(one);
    if (!message)
      taken.refusal = Refusal::Malformed;
    else if (!has_place(side_, *message))
      taken.refusal = Refusal::Order;
    else
      taken.messages.push_back(*std::move(message));
    if (taken.refusal) break;
  }
  over_ = taken.refusal.has_value();
  if (!taken.refusal) taken.refusal = refusal;
  return taken;
}

Bytes Session::seal(const Message& message) {
  return session_.seal(static_cast<std::uint8_t>(type_of(message)), encode(message));
}

}  // namespace lockstep::coordinator
