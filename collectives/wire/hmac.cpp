#include <cstdlib>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <lockstep/collectives/wire/hmac.h>

namespace lockstep::collectives {

Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> text) {
  Mac mac{};
  unsigned int length = 0;
  const auto* made = ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                            reinterpret_cast<unsigned char*>(mac.data()), &length);
  if (made == nullptr || length != mac.size()) std::abort();  // no memory
  return mac;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::collectives
