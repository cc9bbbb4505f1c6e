#include "shuffled_allocation.h"

#include <array>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t state = 0;  // of the generator; 0: off

std::uint64_t next_random() {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

void age_a_block() {
  thread_local std::array<void*, 64> kept{};
  const std::uint64_t r = next_random();
  if (r % 4 != 0) return;
  void*& slot = kept[(r >> 8) % kept.size()];
  std::free(slot);
  slot = std::malloc(1 + (r >> 16) % 2048);
}

}  // namespace

void shuffle_allocations(std::uint64_t seed) { state = seed; }

// Not inlined: the compiler would see free() beside a new of its own.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (state != 0) {
    age_a_block();
    size += next_random() % 512;
  }
  return std::malloc(size + (size == 0));
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* out = operator new(size, std::nothrow)) return out;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  std::free(block);
}
