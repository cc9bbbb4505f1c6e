// TLS 1.3 (RFC 8446) on one connection, under a pre-shared key that both sides derive from the
// secret of their job, with a fresh Diffie-Hellman exchange: no certificate, no ticket, no early
// data. Pure: takes bytes; returns plain text, and bytes to send. Used by sealed_session.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include <lockstep/collectives/wire/sealed_message.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {

/// One side of one connection. Used by one thread.
class TlsChannel {
 public:
  enum class Side : std::uint8_t { Server, Client };
  TlsChannel(Side side, const Secret& secret);
  ~TlsChannel();
  TlsChannel(TlsChannel&&) noexcept;
  TlsChannel& operator=(TlsChannel&&) noexcept;

  /// True if the first bytes of a connection are TLS.
  [[nodiscard]] static bool begins(std::span<const std::byte> bytes);
  /// Takes bytes of the other side and appends their plain text to `plain`. A refusal is final:
  /// Encryption (the other side does not encrypt, or OpenSSL cannot), Version (another version of
  /// TLS), Size (too many bytes before the key is proven), Token (the other side does not have the
  /// key), Altered.
  [[nodiscard]] std::optional<Refusal> take(std::span<const std::byte> bytes, Bytes& plain);
  /// Encrypts `plain` for outgoing(), once the key is proven.
  void write(std::span<const std::byte> plain);
  /// Returns the bytes to send now, at first those of a client's handshake.
  [[nodiscard]] Bytes outgoing();
  /// True once the other side has proven that it has the key.
  [[nodiscard]] bool established() const;

  /// Maximum number of bytes from the other side before the key is proven.
  static constexpr std::size_t kMostHandshakeBytes = 4096;
  /// Maximum number of calls of write() under one key.
  static constexpr std::uint64_t kWritesOfAKey = std::uint64_t{1} << 20;

 private:
  struct State;
  [[nodiscard]] std::optional<Refusal> shake_hands();
  void write_now(std::span<const std::byte> plain);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::collectives
