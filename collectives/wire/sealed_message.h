// Messages on a stream of bytes between processes of a job, and between them and its coordinator,
// in both directions. Version 2, little-endian:
//
//   magic "LKSC" (4)  version (1)  type (1)  zero (2)  length of the payload (4)  counter (8)
//   payload
//   HMAC-SHA256 over all of the above (32), once both sides have a key; not inside TLS
//
// The first five bytes have the same meaning in every version. No memory is allocated for a payload
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
/// Longest payload before the two sides have a key, and longest payload after.
inline constexpr std::size_t kPlainPayloadBytes = 64, kSealedPayloadBytes = 64 * 1024;

/// Types of messages without HMAC, in the order in which they are sent; Rejected is sent in place
/// of an answer. The types of sealed messages begin with kFirstSealedType and are defined by the
/// user of the session.
enum class HandshakeType : std::uint8_t { Hello = 1, Challenge, Proof, Welcome, Rejected };
inline constexpr std::uint8_t kFirstSealedType = 16;

/// Why received bytes are refused and the connection is closed.
enum class Refusal : std::uint8_t {
  Magic = 1,  // no message of this protocol
  Version,    // a message of another version
  Size,       // a payload longer than allowed
  Altered,    // a wrong HMAC: altered, or made with another key
  Replay,     // a counter that is not the next
  Order,      // a type that is not allowed at this point
  Malformed,  // a payload that does not fit its type
  Token,      // the other side does not know the secret
  Encryption  // one side encrypts, the other does not
};
inline constexpr std::size_t kRefusals = 10;  // including 0, which means no refusal
[[nodiscard]] std::string_view refusal_text(Refusal refusal);

struct SealedMessage {
  std::uint8_t type = 0;
  Bytes payload;
};

/// Writes the messages of one side. Counts sealed messages from 0. Without a key these have a
/// counter but no HMAC.
class SealedMessageWriter {
 public:
  /// Requires a payload of at most kPlainPayloadBytes.
  [[nodiscard]] static Bytes plain(HandshakeType type, std::span<const std::byte> payload);
  [[nodiscard]] Bytes sealed(std::uint8_t type, std::span<const std::byte> payload);
  void key(const Mac& key) { key_.emplace(key); }

 private:
  std::optional<HmacKey> key_;
  std::uint64_t counter_ = 0;
};

/// Splits a stream into messages. Holds at most one message and the bytes put in since the last
/// next().
class SealedMessageReader {
 public:
  void put(std::span<const std::byte> bytes);
  /// Returns the next message; nullopt while it is incomplete; or a refusal, which every later call
  /// repeats.
  [[nodiscard]] std::variant<std::optional<SealedMessage>, Refusal> next();
  /// Sets the key under which all messages from the next on are sealed.
  void key(const Mac& key) {
    key_.emplace(key);
    counted_ = true;
  }
  /// Declares that all messages from the next on have a counter and no HMAC: TLS protects them.
  void carried() { counted_ = true; }

 private:
  [[nodiscard]] std::optional<Refusal> wrong_header(std::span<const std::byte> header) const;
  Bytes buffer_;
  std::size_t taken_ = 0;  // bytes of buffer_ that are used up
  std::optional<HmacKey> key_;
  bool counted_ = false;
  std::uint64_t counter_ = 0;
  std::optional<Refusal> refused_;
};

}  // namespace lockstep::collectives
