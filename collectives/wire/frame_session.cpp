#include <algorithm>
#include <cassert>
#include <utility>

#include <lockstep/collectives/wire/frame_session.h>

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

FrameSession::FrameSession(Side side, Secret secret, const Nonce& nonce)
    : side_(side),
      step_(side == Side::Client ? Step::AwaitChallenge : Step::AwaitHello),
      secret_(std::move(secret)),
      nonce_(nonce) {
  assert(secret_.size() >= kSecretBytes);
}

Bytes FrameSession::open() const {
  return side_ == Side::Client ? FrameWriter::plain(FrameType::Hello, nonce_) : Bytes{};
}

Mac FrameSession::keyed(std::string_view label) const {
  const bool client = side_ == Side::Client;
  Bytes text;
  append(text, std::as_bytes(std::span(label)));
  text.push_back(std::byte{0});
  text.push_back(std::byte{kProtocolVersion});
  append(text, client ? nonce_ : peer_nonce_);
  append(text, client ? peer_nonce_ : nonce_);
  return hmac_sha256(secret_, text);
}

void FrameSession::establish() {
  const bool client = side_ == Side::Client;
  writer_.key(keyed(client ? kClientKey : kServerKey));
  reader_.key(keyed(client ? kServerKey : kClientKey));
  step_ = Step::Established;
}

/// The nonce of the other side has come: an answer to Hello, or to Challenge.
std::optional<Refusal> FrameSession::greeted(const Frame& frame, Bytes& reply) {
  if (frame.payload.size() != peer_nonce_.size()) return Refusal::Malformed;
  std::copy(frame.payload.begin(), frame.payload.end(), peer_nonce_.begin());
  if (side_ == Side::Server) {
    append(reply, FrameWriter::plain(FrameType::Challenge, nonce_));
    step_ = Step::AwaitProof;
  } else {
    append(reply, FrameWriter::plain(FrameType::Proof, keyed(kClientProof)));
    step_ = Step::AwaitWelcome;
  }
  return std::nullopt;
}

/// The proof of the other side has come.
std::optional<Refusal> FrameSession::proven(const Frame& frame, Bytes& reply) {
  const bool client = side_ == Side::Client;
  if (!same(frame.payload, keyed(client ? kServerProof : kClientProof))) return Refusal::Token;
  if (!client) append(reply, FrameWriter::plain(FrameType::Welcome, keyed(kServerProof)));
  establish();
  return std::nullopt;
}

std::optional<Refusal> FrameSession::handshake(const Frame& frame, Bytes& reply) {
  if (side_ == Side::Client && FrameType{frame.type} == FrameType::Rejected)
    return frame.payload.size() == 1 ? Refusal(frame.payload[0]) : Refusal::Malformed;
  const auto type = FrameType{frame.type};
  switch (step_) {
    case Step::AwaitHello:
      return type == FrameType::Hello ? greeted(frame, reply) : Refusal::Order;
    case Step::AwaitChallenge:
      return type == FrameType::Challenge ? greeted(frame, reply) : Refusal::Order;
    case Step::AwaitProof:
      return type == FrameType::Proof ? proven(frame, reply) : Refusal::Order;
    case Step::AwaitWelcome:
      return type == FrameType::Welcome ? proven(frame, reply) : Refusal::Order;
    case Step::Established:
    case Step::Over:
      break;
  }
  return Refusal::Order;
}

FrameSession::Taken FrameSession::take(std::span<const std::byte> bytes) {
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
    const auto& frame = std::get<std::optional<Frame>>(next);
    if (!frame) return taken;
    if (!established()) {
      taken.refusal = handshake(*frame, taken.reply);
      continue;
    }
    if (frame->type < kFirstSealedType)
      taken.refusal = Refusal::Order;
    else
      taken.frames.push_back(*frame);
  }
  if (side_ == Side::Server && !established()) {
    const std::byte why{static_cast<std::uint8_t>(*taken.refusal)};
    append(taken.reply, FrameWriter::plain(FrameType::Rejected, {&why, 1}));
  }
  step_ = Step::Over;
  return taken;
}

Bytes FrameSession::seal(std::uint8_t type, std::span<const std::byte> payload) {
  assert(established() && type >= kFirstSealedType);
  return writer_.sealed(type, payload);
}

}  // namespace lockstep::collectives
