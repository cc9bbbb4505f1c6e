#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <openssl/sha.h>

#include <lockstep/coordinator/store/seal.h>

namespace lockstep::coordinator {
namespace {

constexpr std::string_view kMagic = "lockstep";
constexpr std::size_t kWord = 8;  // bytes of the magic, and of a kind's name

using Digest = std::array<std::byte, SHA256_DIGEST_LENGTH>;

Digest sha256(std::span<const std::byte> bytes, std::span<const std::byte> more) {
  SHA256_CTX context;
  Digest digest;
// The one-shot interface takes one span only, and EVP would need a heap object.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Update(&context, more.data(), more.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
#pragma GCC diagnostic pop
  return digest;
}

/// The seal without its digest.
Bytes head_of(const StoredKind& kind, std::uint64_t length) {
  ByteWriter out;
  for (const std::string_view word : {kMagic, kind.name})
    for (std::size_t i = 0; i < kWord; ++i)
      out.u8(i < word.size() ? static_cast<std::uint8_t>(word[i]) : std::uint8_t{0});
  out.u32(kind.version);
  out.u64(length);
  return std::move(out).take();
}

}  // namespace

Bytes seal(const StoredKind& kind, std::span<const std::byte> payload) {
  Bytes out = head_of(kind, payload.size());
  const Digest digest = sha256(out, payload);
  out.reserve(kSealBytes + payload.size());
  out.insert(out.end(), digest.begin(), digest.end());
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

Result<std::span<const std::byte>> unseal(const StoredKind& kind,
                                          std::span<const std::byte> bytes) {
  const auto refused = [](std::string why, Code code = Code::Environment) {
    return Status{code, std::move(why), {}, {}};
  };
  if (bytes.size() < kSealBytes)
    return refused(fmt::format("it is cut short at {} bytes", bytes.size()));
  const auto payload = bytes.subspan(kSealBytes);
  const Bytes expected = head_of(kind, payload.size());
  const auto same = [&](std::size_t from, std::size_t size) {
    return std::memcmp(bytes.data() + from, expected.data() + from, size) == 0;
  };
  if (!same(0, kWord)) return refused("it does not begin as what lockstep stores");
  if (!same(kWord, kWord))
    return refused(fmt::format("it does not say that it is a {}", kind.name));
  ByteReader rest(bytes.subspan(2 * kWord));
  if (const std::uint32_t version = rest.u32(); version != kind.version)
    return refused(fmt::format("it is of version {}, this program reads {}", version, kind.version),
                   Code::Version);
  if (const std::uint64_t length = rest.u64(); length != payload.size())
    return refused(fmt::format("{} bytes follow its seal, which says {}", payload.size(), length));
  const Digest digest = sha256(expected, payload);
  if (!std::equal(digest.begin(), digest.end(), bytes.begin() + expected.size()))
    return refused("its SHA-256 does not match");
  return payload;
}

std::string content_digest(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : sha256(bytes, {})) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace lockstep::coordinator
