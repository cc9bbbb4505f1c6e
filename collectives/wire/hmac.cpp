#include <cstdlib>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <lockstep/collectives/wire/hmac.h>

namespace lockstep::collectives {

namespace {

EVP_MAC_CTX* of_openssl(void* context) { return static_cast<EVP_MAC_CTX*>(context); }

}  // namespace

void HmacKey::Free::operator()(Context* context) const { EVP_MAC_CTX_free(of_openssl(context)); }

HmacKey::HmacKey(std::span<const std::byte> key) {
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM how[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                            OSSL_PARAM_construct_end()};
  EVP_MAC_CTX* made = hmac == nullptr ? nullptr : EVP_MAC_CTX_new(hmac);
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (made == nullptr || EVP_MAC_init(made, bytes, key.size(), how) != 1) std::abort();
  context_.reset(reinterpret_cast<Context*>(made));
}

Mac HmacKey::of(std::span<const std::byte> text) {
  EVP_MAC_CTX* context = of_openssl(context_.get());
  Mac mac{};
  std::size_t length = 0;
  if (EVP_MAC_init(context, nullptr, 0, nullptr) != 1 ||  // restarts with the same key
      EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(text.data()), text.size()) !=
          1 ||
      EVP_MAC_final(context, reinterpret_cast<unsigned char*>(mac.data()), &length, mac.size()) !=
          1 ||
      length != mac.size())
    std::abort();  // no memory
  return mac;
}

Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> text) {
  return HmacKey(key).of(text);
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::collectives
