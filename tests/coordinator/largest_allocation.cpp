#include "largest_allocation.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest{0};

}  // namespace

namespace lockstep::coordinator {

std::size_t largest_allocation() { return largest; }
void start_counting() { largest = 0; }

}  // namespace lockstep::coordinator

// Both forms: memory of the other one would be freed here too. Not inlined: the compiler would see
// free() beside a new of its own.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (size > largest) largest = size;
  return size < std::size_t{512} << 20 ? std::malloc(size) : nullptr;
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* out = operator new(size, std::nothrow)) return out;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
