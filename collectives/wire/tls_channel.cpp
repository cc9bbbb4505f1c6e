#include <array>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <lockstep/collectives/wire/hmac.h>
#include <lockstep/collectives/wire/tls_channel.h>

namespace lockstep::collectives {
namespace {

constexpr std::string_view kKeyLabel = "lockstep tls key", kIdentity = "lockstep";
/// First byte of a record: a handshake, or an alert.
constexpr std::byte kHandshakeRecord{22}, kAlertRecord{21};
/// TLS_AES_128_GCM_SHA256, the only suite in use.
constexpr std::array<unsigned char, 2> kSuite{0x13, 0x01};

/// The session that represents the key, on both sides; null: no memory.
SSL_SESSION* session_of(SSL* ssl, const Mac& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kSuite.data());
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (session != nullptr && suite != nullptr &&
      SSL_SESSION_set1_master_key(session, bytes, key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, suite) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

const Mac& key_of(SSL* ssl) { return *static_cast<const Mac*>(SSL_get_app_data(ssl)); }

extern "C" int lockstep_client_key(SSL* ssl, const EVP_MD* hash, const unsigned char** identity,
                                   std::size_t* length, SSL_SESSION** session) {
  const bool fits = hash == nullptr || EVP_MD_get_type(hash) == NID_sha256;
  *session = fits ? session_of(ssl, key_of(ssl)) : nullptr;
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = *session == nullptr ? 0 : kIdentity.size();
  return 1;
}

extern "C" int lockstep_server_key(SSL* ssl, const unsigned char* identity, std::size_t length,
                                   SSL_SESSION** session) {
  const std::string_view said(reinterpret_cast<const char*>(identity), length);
  *session = said == kIdentity ? session_of(ssl, key_of(ssl)) : nullptr;
  return 1;
}

/// Shared by all connections of this process; null: this OpenSSL lacks a needed part.
SSL_CTX* context() {
  static const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> made(
      [] {
        SSL_CTX* out = SSL_CTX_new(TLS_method());
        if (out == nullptr) return out;
        const bool fit = SSL_CTX_set_min_proto_version(out, TLS1_3_VERSION) == 1 &&
                         SSL_CTX_set_max_proto_version(out, TLS1_3_VERSION) == 1 &&
                         SSL_CTX_set_ciphersuites(out, "TLS_AES_128_GCM_SHA256") == 1 &&
                         SSL_CTX_set1_groups_list(out, "X25519:P-256") == 1 &&
                         SSL_CTX_set_num_tickets(out, 0) == 1;
        SSL_CTX_set_session_cache_mode(out, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_mode(out, SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_psk_use_session_callback(out, lockstep_client_key);
        SSL_CTX_set_psk_find_session_callback(out, lockstep_server_key);
        if (fit) return out;
        SSL_CTX_free(out);
        return static_cast<SSL_CTX*>(nullptr);
      }(),
      SSL_CTX_free);
  return made.get();
}

}  // namespace

struct TlsChannel::State {
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl{nullptr, SSL_free};
  BIO* in = nullptr;  // `in` and `out` belong to ssl
  BIO* out = nullptr;
  Mac key{};
  Bytes waiting;  // plain text to be written once the key is proven
  std::size_t taken = 0;
  std::uint64_t writes = 0;
  bool established = false;
};

TlsChannel::TlsChannel(Side side, const Secret& secret) : state_(std::make_unique<State>()) {
  state_->key = hmac_sha256(secret, std::as_bytes(std::span(kKeyLabel)));
  if (context() == nullptr) return;
  state_->ssl.reset(SSL_new(context()));
  SSL* ssl = state_->ssl.get();
  if (ssl == nullptr) return;
  state_->in = BIO_new(BIO_s_mem());
  state_->out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, state_->in, state_->out);
  SSL_set_app_data(ssl, &state_->key);
  if (side == Side::Server) {
    SSL_set_accept_state(ssl);
  } else {
    SSL_set_connect_state(ssl);
    // No certificate is trusted: a server that presents one in place of the key is refused.
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
    ERR_clear_error();
    (void)SSL_do_handshake(ssl);
  }
}

TlsChannel::~TlsChannel() = default;
TlsChannel::TlsChannel(TlsChannel&&) noexcept = default;
TlsChannel& TlsChannel::operator=(TlsChannel&&) noexcept = default;

bool TlsChannel::begins(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes.front() == kHandshakeRecord;
}

bool TlsChannel::established() const { return state_->established; }

/// Continues the handshake. nullopt: it is still under way, or has succeeded.
std::optional<Refusal> TlsChannel::shake_hands() {
  SSL* ssl = state_->ssl.get();
  if (state_->taken > kMostHandshakeBytes) return Refusal::Size;
  if (const int done = SSL_do_handshake(ssl); done != 1) {
    if (SSL_get_error(ssl, done) == SSL_ERROR_WANT_READ) return std::nullopt;
    const int why = ERR_GET_REASON(ERR_peek_last_error());
    return why == SSL_R_UNSUPPORTED_PROTOCOL || why == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION
               ? Refusal::Version
               : Refusal::Token;
  }
  // The other side must have proven the key; no other means of TLS is accepted.
  if (SSL_session_reused(ssl) != 1) return Refusal::Token;
  state_->established = true;
  write_now(std::exchange(state_->waiting, {}));
  return std::nullopt;
}

std::optional<Refusal> TlsChannel::take(std::span<const std::byte> bytes, Bytes& plain) {
  SSL* ssl = state_->ssl.get();
  if (ssl == nullptr) return Refusal::Encryption;
  if (state_->taken == 0 && !bytes.empty() && bytes.front() != kHandshakeRecord &&
      bytes.front() != kAlertRecord)
    return Refusal::Encryption;
  state_->taken += bytes.size();
  BIO_write(state_->in, bytes.data(), static_cast<int>(bytes.size()));
  ERR_clear_error();
  if (!state_->established)
    if (const auto refusal = shake_hands(); refusal || !state_->established) return refusal;
  std::array<std::byte, 16 * 1024> piece;
  while (true) {
    std::size_t n = 0;
    const int got = SSL_read_ex(ssl, piece.data(), piece.size(), &n);
    if (got != 1)
      return SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ ? std::nullopt
                                                            : std::optional(Refusal::Altered);
    plain.insert(plain.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

void TlsChannel::write(std::span<const std::byte> plain) {
  if (plain.empty()) return;
  if (state_->established)
    write_now(plain);
  else
    state_->waiting.insert(state_->waiting.end(), plain.begin(), plain.end());
}

// Writes into memory, so all bytes are taken. Changes the key after kWritesOfAKey calls (RFC 8446,
// 5.5).
void TlsChannel::write_now(std::span<const std::byte> plain) {
  SSL* ssl = state_->ssl.get();
  if (plain.empty() || ssl == nullptr) return;
  if (++state_->writes % kWritesOfAKey == 0) SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
  std::size_t n = 0;
  (void)SSL_write_ex(ssl, plain.data(), plain.size(), &n);
}

Bytes TlsChannel::outgoing() {
  Bytes out(state_->out == nullptr ? 0 : BIO_ctrl_pending(state_->out));
  if (!out.empty()) BIO_read(state_->out, out.data(), static_cast<int>(out.size()));
  return out;
}

}  // namespace lockstep::collectives
