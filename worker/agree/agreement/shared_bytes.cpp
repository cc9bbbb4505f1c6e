#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/agree/agreement/shared_bytes.h>

namespace lockstep::worker {
namespace {

using collectives::Vote;

constexpr Rank kOfferer{0};

/// The first rank's description of its bytes.
struct Offer {
  shapes::Fingerprint of;
  std::uint64_t bytes = 0;
  std::string digest;  // empty: the first rank has no bytes
};

Bytes encode_offer(const Offer& offer) {
  ByteWriter out;
  out.u64(offer.of.high);
  out.u64(offer.of.low);
  out.u64(offer.bytes);
  out.text(offer.digest);
  return std::move(out).take();
}

std::optional<Offer> decode_offer(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Offer out;
  out.of.high = in.u64();
  out.of.low = in.u64();
  out.bytes = in.u64();
  out.digest = in.text();
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return out;
}

void keep(const SharedStore& store, const shapes::Fingerprint& of, const Bytes& bytes) {
  if (store.artifacts == nullptr) return;
  if (auto kept = store.artifacts->store(of, bytes); !kept) store.report(kept.error());
}

/// The bytes in this rank's store, if they are those of `offer`.
std::optional<Bytes> kept(const SharedStore& store, const Offer& offer) {
  if (store.artifacts == nullptr) return std::nullopt;
  auto found = store.artifacts->load(offer.of);
  if (!found) store.report(found.error());
  if (!found || !*found || coordinator::content_digest(**found) != offer.digest)
    return std::nullopt;
  return std::move(*found);
}

Status too_many(const Offer& offer) {
  return environment_error(
      fmt::format("what the first rank has built has {} bytes, at most {} are sent, so every "
                  "rank builds for itself",
                  offer.bytes, kLargestShared));
}

Status other_bytes(const std::string& digest, const Offer& offer) {
  return environment_error(
      fmt::format("what came from the first rank is not what it has built (SHA-256 {}…, told "
                  "{}…), so nothing of it was loaded; check this host's memory and network",
                  digest.substr(0, 16), offer.digest.substr(0, 16)));
}

}  // namespace

Result<SharedBytes> share_bytes(CallDriver& driver, RoundKey key, const shapes::Fingerprint& of,
                                std::optional<Bytes> mine, const SharedStore& store) {
  key.kind = RoundKey::Kind::Share;
  // A rank that does not share is in another round. This vote detects that; a broadcast would not.
  if (auto all = driver.vote_words(key, Vote::of(Vote::kOnes, key.hash(), 0, 0)); !all)
    return all.error();
  const bool first = driver.group().rank() == kOfferer;
  Offer own{of, 0, {}};
  if (first && mine) own = {of, mine->size(), coordinator::content_digest(*mine)};
  const auto told = driver.broadcast(kOfferer, encode_offer(own));
  if (!told) return told.error();
  auto offer = decode_offer(*told);
  SharedBytes out;
  if (!offer) {  // this rank stays for the rounds that follow
    out.failure =
        internal_error("what the first rank says of the bytes that it shares cannot be read");
    offer = Offer{};
  } else if (offer->digest.empty()) {
    return out;
  }
  if (first) {
    keep(store, of, *mine);
    out.bytes = std::move(mine);
  } else if (offer->of == of) {
    out.bytes = kept(store, *offer);
  }
  const bool lacks = offer->of == of && !out.bytes;
  ++key.attempt;
  const auto vote = driver.vote_words(key, Vote::of(lacks ? 0 : Vote::kOnes, key.hash(), 0, 0));
  if (!vote) return vote.error();
  if (vote->entries() == Vote::kOnes) return out;
  if (offer->bytes > kLargestShared) {
    if (first) store.report(too_many(*offer));
    return out;
  }
  auto sent = driver.broadcast(kOfferer, first ? *out.bytes : Bytes{});
  if (!sent) return sent.error();
  if (!lacks) return out;
  const std::string digest = coordinator::content_digest(*sent);
  if (digest != offer->digest) {
    out.failure = other_bytes(digest, *offer);
    return out;
  }
  keep(store, of, *sent);
  out.bytes = *std::move(sent);
  return out;
}

}  // namespace lockstep::worker
