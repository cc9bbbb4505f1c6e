// TLS under a key from the secret: who has it is understood, whoever does not is refused, whatever
// they send.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <lockstep/collectives/wire/tls_channel.h>

namespace lockstep::collectives::tls_channel_test {
namespace {

const Secret kSecret(32, std::byte{'s'}), kOther(32, std::byte{'t'});

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Both sides, and what each has understood.
struct Two {
  explicit Two(const Secret& of_client = kSecret, const Secret& of_server = kSecret)
      : client(TlsChannel::Side::Client, of_client), server(TlsChannel::Side::Server, of_server) {}

  /// Until neither has anything to send.
  void talk() {
    while (true) {
      const Bytes out = client.outgoing();
      if (!server_refusal) server_refusal = server.take(out, at_server);
      const Bytes back = server.outgoing();
      if (!client_refusal) client_refusal = client.take(back, at_client);
      if (out.empty() && back.empty()) return;
    }
  }

  TlsChannel client, server;
  Bytes at_client, at_server;
  std::optional<Refusal> client_refusal, server_refusal;
};

TEST(TlsChannel, WhoHasTheKey_IsUnderstood_InPiecesOfAnyLength) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    TlsChannel sides[2] = {{TlsChannel::Side::Client, kSecret},
                           {TlsChannel::Side::Server, kSecret}};
    Bytes said[2], heard[2], wire[2];
    for (int step = 0; step < 3'000; ++step) {
      const auto from = random() % 2, to = 1 - from;
      if (random() % 4 == 0) {  // also before the key is proven
        Bytes message(random() % (random() % 16 == 0 ? 70'000 : 100));
        for (std::byte& one : message) one = static_cast<std::byte>(random());
        sides[from].write(message);
        said[from].insert(said[from].end(), message.begin(), message.end());
      }
      const Bytes out = sides[from].outgoing();
      wire[from].insert(wire[from].end(), out.begin(), out.end());
      const std::size_t n = std::min<std::size_t>(wire[from].size(), random() % 3'000);
      ASSERT_EQ(sides[to].take(std::span(wire[from]).first(n), heard[to]), std::nullopt);
      wire[from].erase(wire[from].begin(), wire[from].begin() + static_cast<std::ptrdiff_t>(n));
    }
    for (bool more = true; more;) {
      more = false;
      for (const std::size_t from : {0U, 1U}) {
        const Bytes out = sides[from].outgoing();
        wire[from].insert(wire[from].end(), out.begin(), out.end());
        more = more || !wire[from].empty();
        ASSERT_EQ(sides[1 - from].take(std::exchange(wire[from], {}), heard[1 - from]),
                  std::nullopt);
      }
    }
    EXPECT_TRUE(sides[0].established() && sides[1].established());
    EXPECT_EQ(heard[0], said[1]);
    EXPECT_EQ(heard[1], said[0]);
  }
}

TEST(TlsChannel, WhatIsSaid_CannotBeReadOnTheWay) {
  Two two;
  two.talk();
  const Bytes words = bytes_of("x.size(0) is 4711 on rank 3");
  two.client.write(words);
  const Bytes out = two.client.outgoing();
  EXPECT_EQ(std::search(out.begin(), out.end(), words.begin(), words.end()), out.end());
  EXPECT_EQ(two.server.take(out, two.at_server), std::nullopt);
  EXPECT_EQ(two.at_server, words);
  TlsChannel second(TlsChannel::Side::Client, kSecret);
  EXPECT_NE(second.outgoing(), TlsChannel(TlsChannel::Side::Client, kSecret).outgoing())
      << "each connection has a key of its own";
}

TEST(TlsChannel, AnotherSecret_IsRefusedByBoth_BeforeAnythingIsSaid) {
  Two two(kSecret, kOther);
  two.client.write(bytes_of("hello"));
  two.server.write(bytes_of("hello"));
  two.talk();
  EXPECT_EQ(two.server_refusal, Refusal::Token);
  EXPECT_EQ(two.client_refusal, Refusal::Token);
  EXPECT_FALSE(two.client.established() || two.server.established());
  EXPECT_TRUE(two.at_client.empty() && two.at_server.empty());
}

TEST(TlsChannel, AnyByteThatIsAltered_IsRefused) {
  Two two;
  two.talk();
  two.client.write(Bytes(50, std::byte{7}));
  const Bytes out = two.client.outgoing();
  for (std::size_t i = 5; i < out.size(); ++i) {  // the lengths in front are of no use to anybody
    Two fresh;
    fresh.talk();
    fresh.client.write(Bytes(50, std::byte{7}));
    Bytes altered = fresh.client.outgoing();
    altered[i] ^= std::byte{1};
    EXPECT_EQ(fresh.server.take(altered, fresh.at_server), Refusal::Altered) << "byte " << i;
    EXPECT_TRUE(fresh.at_server.empty());
  }
}

TEST(TlsChannel, HandshakeThatIsAltered_IsNotEstablished) {
  std::size_t length = TlsChannel(TlsChannel::Side::Client, kSecret).outgoing().size();
  for (std::size_t i = 5; i < length; i += 3) {
    Two two;
    Bytes first = two.client.outgoing();
    length = first.size();
    first[i] ^= std::byte{1};
    two.server_refusal = two.server.take(first, two.at_server);
    two.talk();
    EXPECT_FALSE(two.server.established()) << "byte " << i;
  }
}

TEST(TlsChannel, WhatWasRecorded_DoesNotOpenAnotherConnection) {
  Two two;
  Bytes all;
  for (int turn = 0; turn < 4; ++turn) {
    if (turn == 2) two.client.write(bytes_of("kill the job"));
    const Bytes out = two.client.outgoing();
    all.insert(all.end(), out.begin(), out.end());
    ASSERT_EQ(two.server.take(out, two.at_server), std::nullopt);
    ASSERT_EQ(two.client.take(two.server.outgoing(), two.at_client), std::nullopt);
  }
  ASSERT_EQ(two.at_server, bytes_of("kill the job"));
  TlsChannel other(TlsChannel::Side::Server, kSecret);
  Bytes heard;
  EXPECT_TRUE(other.take(all, heard).has_value());
  EXPECT_FALSE(other.established());
  EXPECT_TRUE(heard.empty());
}

TEST(TlsChannel, WhatIsNoTls_OrTooMuchBeforeTheKey_IsRefused) {
  Bytes heard;
  EXPECT_EQ(TlsChannel(TlsChannel::Side::Server, kSecret).take(bytes_of("GET / "), heard),
            Refusal::Encryption);
  EXPECT_EQ(TlsChannel(TlsChannel::Side::Client, kSecret).take(bytes_of("LKSC\2"), heard),
            Refusal::Encryption);
  Bytes endless{std::byte{22}, std::byte{3}, std::byte{1}, std::byte{0x3f}, std::byte{0xff},
                std::byte{1},  std::byte{0}, std::byte{0x3f}};
  TlsChannel server(TlsChannel::Side::Server, kSecret);
  EXPECT_EQ(server.take(endless, heard), std::nullopt);
  std::optional<Refusal> refusal;
  std::size_t said = endless.size();
  while (!refusal && said < 100'000) {
    refusal = server.take(Bytes(500), heard);
    said += 500;
  }
  EXPECT_EQ(refusal, Refusal::Size);
  EXPECT_LE(said, TlsChannel::kMostHandshakeBytes + 500);
}

/// OpenSSL as others set it up, beside one of our channels.
struct Stranger {
  explicit Stranger(bool server) : context(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    if (server) {
      key.reset(EVP_EC_gen("P-256"));
      X509_set_version(certificate.get(), 2);
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3'600);
      X509_set_pubkey(certificate.get(), key.get());
      X509_sign(certificate.get(), key.get(), EVP_sha256());
      EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    is_server = server;
  }
  /// Until it neither says nor hears anything.
  std::optional<Refusal> talk(TlsChannel& ours) {
    ssl.reset(SSL_new(context.get()));
    BIO* in = BIO_new(BIO_s_mem());
    BIO* out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl.get(), in, out);
    is_server ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
    Bytes heard;
    std::optional<Refusal> refusal;
    for (int turn = 0; turn < 8 && !refusal; ++turn) {
      const Bytes from_us = ours.outgoing();
      BIO_write(in, from_us.data(), static_cast<int>(from_us.size()));
      (void)SSL_do_handshake(ssl.get());
      Bytes theirs(BIO_ctrl_pending(out));
      if (!theirs.empty()) BIO_read(out, theirs.data(), static_cast<int>(theirs.size()));
      if (!theirs.empty()) refusal = ours.take(theirs, heard);
    }
    EXPECT_TRUE(heard.empty());
    return refusal;
  }
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key{nullptr, EVP_PKEY_free};
  std::unique_ptr<X509, decltype(&X509_free)> certificate{X509_new(), X509_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl{nullptr, SSL_free};
  bool is_server = false;
};

TEST(TlsChannel, ServerWithACertificateInPlaceOfTheKey_IsRefused) {
  Stranger server(true);
  TlsChannel client(TlsChannel::Side::Client, kSecret);
  client.write(bytes_of("hello"));
  EXPECT_EQ(server.talk(client), Refusal::Token);
  EXPECT_FALSE(client.established());
}

TEST(TlsChannel, ClientWithoutAKey_OrOfAnotherVersion_IsRefused) {
  TlsChannel server(TlsChannel::Side::Server, kSecret);
  EXPECT_EQ(Stranger(false).talk(server), Refusal::Token);
  EXPECT_FALSE(server.established());
  Stranger old(false);
  SSL_CTX_set_max_proto_version(old.context.get(), TLS1_2_VERSION);
  TlsChannel second(TlsChannel::Side::Server, kSecret);
  EXPECT_EQ(old.talk(second), Refusal::Version);
}

TEST(TlsChannel, KeyThatWasUsedLong_IsReplaced) {
  Two two;
  two.talk();
  const Bytes word(8, std::byte{1});
  two.client.write(word);
  const std::size_t usual = two.client.outgoing().size();
  Two fresh;
  fresh.talk();
  std::size_t longer = 0;
  for (std::uint64_t i = 1; i <= TlsChannel::kWritesOfAKey + 10; ++i) {
    fresh.client.write(word);
    const Bytes out = fresh.client.outgoing();
    longer += out.size() > usual ? 1 : 0;
    fresh.at_server.clear();
    ASSERT_EQ(fresh.server.take(out, fresh.at_server), std::nullopt) << i;
    ASSERT_EQ(fresh.at_server, word) << i;
  }
  EXPECT_EQ(longer, 1u);
}

}  // namespace
}  // namespace lockstep::collectives::tls_channel_test
