#include <new>

#include <fmt/format.h>
#include <xxhash.h>

#include <lockstep/worker/files/checkpoint/digest.h>

namespace lockstep::worker {

struct Digest::State {
  XXH3_state_t* hash;
};

void Digest::Free::operator()(State* state) const {
  XXH3_freeState(state->hash);
  delete state;
}

Digest::Digest() : state_(new State{XXH3_createState()}) {
  if (state_->hash == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_->hash);
}

void Digest::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string Digest::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->hash);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::span<const std::byte> bytes) {
  Digest digest;
  digest.add(bytes);
  return digest.text();
}

}  // namespace lockstep::worker
