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

SealedSession::SealedSession(Side side, Secret secret, const Nonce& nonce, Encryption encryption)
    : side_(side),
      step_(side == Side::Client ? Step::AwaitChallenge : Step::AwaitHello),
      secret_(std::move(secret)),
      nonce_(nonce),
      encryption_(encryption) {
  assert(secret_.size() >= kSecretBytes);
  if (encryption_ == Encryption::On) encrypt();
}

void SealedSession::encrypt() {
  tls_.emplace(side_ == Side::Client ? TlsChannel::Side::Client : TlsChannel::Side::Server,
               secret_);
}

Bytes SealedSession::open() {
  if (side_ == Side::Server) return {};
  Bytes hello = SealedMessageWriter::plain(HandshakeType::Hello, nonce_);
  if (!tls_) return hello;
  tls_->write(hello);
  return tls_->outgoing();
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
  if (tls_) {
    reader_.carried();
  } else {
    writer_.key(keyed(client ? kClientKey : kServerKey));
    reader_.key(keyed(client ? kServerKey : kClientKey));
  }
  step_ = Step::Established;
}

/// Takes the other side's nonce from its Hello or Challenge, and makes the answer.
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

/// Checks the other side's proof; a server answers with its own.
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

SealedSession::Taken SealedSession::refuse(Refusal refusal) {
  Taken taken;
  taken.refusal = refusal;
  if (side_ == Side::Server && !established() && step_ != Step::Over) {
    const std::byte why{static_cast<std::uint8_t>(refusal)};
    taken.reply = SealedMessageWriter::plain(HandshakeType::Rejected, {&why, 1});
  }
  step_ = Step::Over;
  return taken;
}

// A side that does not encrypt gets a plain reply: it could not read an encrypted one.
SealedSession::Taken SealedSession::take(std::span<const std::byte> bytes) {
  if (step_ == Step::Over) return refuse(Refusal::Order);
  const bool first = !bytes.empty() && !std::exchange(heard_, true);
  if (first && side_ == Side::Server && !tls_ && TlsChannel::begins(bytes)) {
    if (encryption_ == Encryption::Off) return refuse(Refusal::Encryption);
    encrypt();
  }
  if (!tls_) return understand(bytes);
  Bytes plain;
  const auto refusal = tls_->take(bytes, plain);
  if (refusal == Refusal::Encryption) return refuse(*refusal);
  Taken taken;
  if (refusal) {
    step_ = Step::Over;
    taken.refusal = refusal;
  } else {
    taken = understand(plain);
  }
  tls_->write(taken.reply);
  taken.reply = tls_->outgoing();
  return taken;
}

SealedSession::Taken SealedSession::understand(std::span<const std::byte> bytes) {
  Taken taken;
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
  append(taken.reply, refuse(*taken.refusal).reply);
  return taken;
}

Bytes SealedSession::seal(std::uint8_t type, std::span<const std::byte> payload) {
  assert(established() && type >= kFirstSealedType);
  Bytes sealed = writer_.sealed(type, payload);
  if (!tls_) return sealed;
  tls_->write(sealed);
  return tls_->outgoing();
}

}  // namespace lockstep::collectives
