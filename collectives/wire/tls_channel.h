// TLS 1.3 (RFC 8446) on one connection, under a pre-shared key that both sides have from the secret
// of their job, with a fresh Diffie-Hellman exchange: no certificate, no ticket, no early data. Pure:
// bytes in; bytes, and bytes to send, out. Used by sealed_session.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include <lockstep/collectives/wire/sealed_message.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {

/// One side of one connection. One thread.
class TlsChannel {
 public:
  enum class Side : std::uint8_t { Server, Client };
  TlsChannel(Side side, const Secret& secret);
  ~TlsChannel();
  TlsChannel(TlsChannel&&) noexcept;
  TlsChannel& operator=(TlsChannel&&) noexcept;

  /// The first bytes of a connection are of TLS.
  [[nodiscard]] static bool begins(std::span<const std::byte> bytes);
  /// Bytes of the other side; what they say is appended to `plain`. A refusal is for good: Encryption
  /// (it does not encrypt), Version (it speaks another TLS), Size (too much before the key is
  /// proven), Token (it does not have the key), Altered.
  [[nodiscard]] std::optional<Refusal> take(std::span<const std::byte> bytes, Bytes& plain);
  /// To be sent once the key is proven.
  void write(std::span<const std::byte> plain);
  /// What is to be sent now: a client's first words too.
  [[nodiscard]] Bytes outgoing();
  /// The other side has proven that it has the key.
  [[nodiscard]] bool established() const;

  /// Bytes of the other side before the key is proven.
  static constexpr std::size_t kMostHandshakeBytes = 4096;
  /// Calls of write() under one key.
  static constexpr std::uint64_t kWritesOfAKey = std::uint64_t{1} << 20;

 private:
  struct State;
  [[nodiscard]] std::optional<Refusal> shake_hands();
  void write_now(std::span<const std::byte> plain);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::collectives
