#include <algorithm>
#include <cassert>
#include <utility>

#include <lockstep/coordinator/session.h>

namespace lockstep::coordinator {
namespace {

constexpr std::string_view kClientProof = "lockstep client proof",
                           kCoordinatorProof = "lockstep coordinator proof",
                           kClientKey = "lockstep client key",
                           kCoordinatorKey = "lockstep coordinator key";

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Each side takes what the other says, and nothing else.
bool has_place(Session::Side side, const Message& message) {
  const bool from_client = std::holds_alternative<Join>(message) ||
                           std::holds_alternative<Report>(message) ||
                           std::holds_alternative<StatusRequest>(message);
  return from_client == (side == Session::Side::Coordinator);
}

}  // namespace

Session::Session(Side side, Secret secret, const Nonce& nonce)
    : side_(side),
      step_(side == Side::Client ? Step::AwaitChallenge : Step::AwaitHello),
      secret_(std::move(secret)),
      nonce_(nonce) {
  assert(secret_.size() >= kSecretBytes);
}

Bytes Session::open() const {
  return side_ == Side::Client ? FrameWriter::plain(FrameType::Hello, nonce_) : Bytes{};
}

Mac Session::keyed(std::string_view label) const {
  const bool client = side_ == Side::Client;
  Bytes text;
  append(text, std::as_bytes(std::span(label)));
  text.push_back(std::byte{0});
  text.push_back(std::byte{kProtocolVersion});
  append(text, client ? nonce_ : peer_nonce_);
  append(text, client ? peer_nonce_ : nonce_);
  return hmac_sha256(secret_, text);
}

void Session::establish() {
  const bool client = side_ == Side::Client;
  writer_.key(keyed(client ? kClientKey : kCoordinatorKey));
  reader_.key(keyed(client ? kCoordinatorKey : kClientKey));
  step_ = Step::Established;
}

/// The nonce of the other side has come: an answer to Hello, or to Challenge.
std::optional<Refusal> Session::greeted(const Frame& frame, Bytes& reply) {
  if (frame.payload.size() != peer_nonce_.size()) return Refusal::Malformed;
  std::copy(frame.payload.begin(), frame.payload.end(), peer_nonce_.begin());
  if (side_ == Side::Coordinator) {
    append(reply, FrameWriter::plain(FrameType::Challenge, nonce_));
    step_ = Step::AwaitProof;
  } else {
    append(reply, FrameWriter::plain(FrameType::Proof, keyed(kClientProof)));
    step_ = Step::AwaitWelcome;
  }
  return std::nullopt;
}

/// The proof of the other side has come.
std::optional<Refusal> Session::proven(const Frame& frame, Bytes& reply) {
  const bool client = side_ == Side::Client;
  if (!same(frame.payload, keyed(client ? kCoordinatorProof : kClientProof))) return Refusal::Token;
  if (!client) append(reply, FrameWriter::plain(FrameType::Welcome, keyed(kCoordinatorProof)));
  establish();
  return std::nullopt;
}

std::optional<Refusal> Session::handshake(const Frame& frame, Bytes& reply) {
  if (side_ == Side::Client && frame.type == FrameType::Rejected)
    return frame.payload.size() == 1 ? Refusal(frame.payload[0]) : Refusal::Malformed;
  switch (step_) {
    case Step::AwaitHello:
      return frame.type == FrameType::Hello ? greeted(frame, reply) : Refusal::Order;
    case Step::AwaitChallenge:
      return frame.type == FrameType::Challenge ? greeted(frame, reply) : Refusal::Order;
    case Step::AwaitProof:
      return frame.type == FrameType::Proof ? proven(frame, reply) : Refusal::Order;
    case Step::AwaitWelcome:
      return frame.type == FrameType::Welcome ? proven(frame, reply) : Refusal::Order;
    case Step::Established:
    case Step::Over:
      break;
  }
  return Refusal::Order;
}

Session::Taken Session::take(std::span<const std::byte> bytes) {
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
    auto message = decode(*frame);
    if (!message)
      taken.refusal = Refusal::Malformed;
    else if (!has_place(side_, *message))
      taken.refusal = Refusal::Order;
    else
      taken.messages.push_back(*std::move(message));
  }
  if (side_ == Side::Coordinator && !established()) {
    const std::byte why{static_cast<std::uint8_t>(*taken.refusal)};
    append(taken.reply, FrameWriter::plain(FrameType::Rejected, {&why, 1}));
  }
  step_ = Step::Over;
  return taken;
}

Bytes Session::seal(const Message& message) {
  assert(established());
  return writer_.sealed(type_of(message), encode(message));
}

}  // namespace lockstep::coordinator
