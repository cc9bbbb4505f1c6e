#include <algorithm>
#include <cassert>
#include <utility>

#include <lockstep/collectives/wire/sealed_session.h>

namespace lockstep::collectives {
namespace {

constexpr std::string_view kClientProof = "lockstep client proof",
                           kServerProof = "lockstep coordinator proof",
                           kClientKey = "lockstep client key",
                           kServerKey = "lockstep coordinator key";

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

SealedSession::SealedSession(Side side, Secret secret, const Nonce& nonce)
    : side_(side),
      step_(side == Side::Client ? Step::AwaitChallenge : Step::AwaitHello),
      secret_(std::move(secret)),
      nonce_(nonce) {
  assert(secret_.size() >= kSecretBytes);
}

Bytes SealedSession::open() const {
  return side_ == Side::Client ? SealedMessageWriter::plain(HandshakeType::Hello, nonce_) : Bytes{};
}

Mac SealedSession::keyed(std::string_view label) const {
  const bool client = side_ == Side::Client;
  Bytes text;
  append(text, std::as_bytes(std::span(label)));
  text.push_back(std::byte{0});
  text.push_back(std::byte{kProtocolVersion});
  append(text, client ? nonce_ : peer_nonce_);
  append(text, client ? peer_nonce_ : nonce_);
  return hmac_sha256(secret_, text);
}

void SealedSession::establish() {
  const bool client = side_ == Side::Client;
  writer_.key(keyed(client ? kClientKey : kServerKey));
  reader_.key(keyed(client ? kServerKey : kClientKey));
  step_ = Step::Established;
}

/// The nonce of the other side has come: an answer to Hello, or to Challenge.
std::optional<Refusal> SealedSession::greeted(const SealedMessage& message, Bytes& reply) {
  if (message.payload.size() != peer_nonce_.size()) return Refusal::Malformed;
  std::copy(message.payload.begin(), message.payload.end(), peer_nonce_.begin());
  if (side_ == Side::Server) {
    append(reply, SealedMessageWriter::plain(HandshakeType::Challenge, nonce_));
    step_ = Step::AwaitProof;
  } else {
    append(reply, SealedMessageWriter::plain(HandshakeType::Proof, keyed(kClientProof)));
    step_ = Step::AwaitWelcome;
  }
  return std::nullopt;
}

/// The proof of the other side has come.
std::optional<Refusal> SealedSession::proven(const SealedMessage& message, Bytes& reply) {
  const bool client = side_ == Side::Client;
  if (!same(message.payload, keyed(client ? kServerProof : kClientProof))) return Refusal::Token;
  if (!client)
    append(reply, SealedMessageWriter::plain(HandshakeType::Welcome, keyed(kServerProof)));
  establish();
  return std::nullopt;
}

std::optional<Refusal> SealedSession::handshake(const SealedMessage& message, Bytes& reply) {
  if (side_ == Side::Client && HandshakeType{message.type} == HandshakeType::Rejected)
    return message.payload.size() == 1 ? Refusal(message.payload[0]) : Refusal::Malformed;
  const auto type = HandshakeType{message.type};
  switch (step_) {
    case Step::AwaitHello:
      return type == HandshakeType::Hello ? greeted(message, reply) : Refusal::Order;
    case Step::AwaitChallenge:
      return type == HandshakeType::Challenge ? greeted(message, reply) : Refusal::Order;
    case Step::AwaitProof:
      return type == HandshakeType::Proof ? proven(message, reply) : Refusal::Order;
    case Step::AwaitWelcome:
      return type == HandshakeType::Welcome ? proven(message, reply) : Refusal::Order;
    case Step::Established:
    case Step::Over:
      break;
  }
  return Refusal::Order;
}

SealedSession::Taken SealedSession::take(std::span<const std::byte> bytes) {
  Taken taken;
  if (step_ == Step::Over) {
    taken.refusal = Refusal::Order;
    return taken;
  }
  reader_.put(bytes);
  while (!taken.refusal) {
    const auto next = reader_.next();
    if (const auto* refusal = std::get_if<Refusal>(&next)) {
      taken.refusal = *refusal;
      break;
    }
    const auto& message = std::get<std::optional<SealedMessage>>(next);
    if (!message) return taken;
    if (!established()) {
      taken.refusal = handshake(*message, taken.reply);
      continue;
    }
    if (message->type < kFirstSealedType)
      taken.refusal = Refusal::Order;
    else
      taken.messages.push_back(*message);
  }
  if (side_ == Side::Server && !established()) {
    const std::byte why{static_cast<std::uint8_t>(*taken.refusal)};
    append(taken.reply, SealedMessageWriter::plain(HandshakeType::Rejected, {&why, 1}));
  }
  step_ = Step::Over;
  return taken;
}

Bytes SealedSession::seal(std::uint8_t type, std::span<const std::byte> payload) {
  assert(established() && type >= kFirstSealedType);
  return writer_.sealed(type, payload);
}

}  // namespace lockstep::collectives
