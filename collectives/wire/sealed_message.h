// The messages between the processes of a job and its coordinator on a stream of bytes, version 2,
// in both directions. Little-endian:
//
//   magic "LKSC" (4)  version (1)  type (1)  zero (2)  length of the payload (4)  counter (8)
//   payload
//   HMAC-SHA256 over all of the above (32), once the two have a key; not within TLS
//
// The first five bytes stay where they are in every version. No memory is allocated for a payload
// before its length is checked, and no payload is read before its HMAC is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include <lockstep/collectives/wire/hmac.h>

namespace lockstep::collectives {

inline constexpr std::uint8_t kProtocolVersion = 2;
inline constexpr std::size_t kHeaderBytes = 20;
/// Longest payloads: before the two sides have a key, and after.
inline constexpr std::size_t kPlainPayloadBytes = 64, kSealedPayloadBytes = 64 * 1024;

/// Types of messages without HMAC, in this order; Rejected in place of an answer. The types of
/// sealed messages begin with kFirstSealedType and are defined by the user of the session.
enum class HandshakeType : std::uint8_t { Hello = 1, Challenge, Proof, Welcome, Rejected };
inline constexpr std::uint8_t kFirstSealedType = 16;

/// Why received bytes are refused and the connection is closed.
enum class Refusal : std::uint8_t {
  Magic = 1,  // no message of this protocol
  Version,    // of another version
  Size,       // a payload longer than allowed
  Altered,    // or made with another key
  Replay,     // a counter that is not the next
  Order,      // a type that has no place here
  Malformed,  // a payload that is none of its type
  Token,      // the other side does not know the secret
  Encryption  // one side encrypts, the other does not
};
inline constexpr std::size_t kRefusals = 10;  // with 0, which is none
[[nodiscard]] std::string_view refusal_text(Refusal refusal);

struct SealedMessage {
  std::uint8_t type = 0;
  Bytes payload;
};

/// The writer of one side. Its sealed messages are counted from 0; without a key they are not
/// sealed.
class SealedMessageWriter {
 public:
  /// Requires that the payload is within its limit.
  [[nodiscard]] static Bytes plain(HandshakeType type, std::span<const std::byte> payload);
  [[nodiscard]] Bytes sealed(std::uint8_t type, std::span<const std::byte> payload);
  void key(const Mac& key) { key_.emplace(key); }

 private:
  std::optional<HmacKey> key_;
  std::uint64_t counter_ = 0;
};

/// Splits a stream into messages. Holds at most the bytes put in since the last next(), and one
/// message.
class SealedMessageReader {
 public:
  void put(std::span<const std::byte> bytes);
  /// The next message; nullopt while it is incomplete; a refusal, which every later call repeats.
  [[nodiscard]] std::variant<std::optional<SealedMessage>, Refusal> next();
  /// All messages from the next one on are sealed with this key.
  void key(const Mac& key) {
    key_.emplace(key);
    counted_ = true;
  }
  /// They are counted only: what carries them lets nobody change them.
  void carried() { counted_ = true; }

 private:
  [[nodiscard]] std::optional<Refusal> wrong_header(std::span<const std::byte> header) const;
  Bytes buffer_;
  std::size_t taken_ = 0;  // of buffer_
  std::optional<HmacKey> key_;
  bool counted_ = false;
  std::uint64_t counter_ = 0;
  std::optional<Refusal> refused_;
};

}  // namespace lockstep::collectives
