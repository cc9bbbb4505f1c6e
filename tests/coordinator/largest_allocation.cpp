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

void* operator new(std::size_t size) {
  if (size > largest) largest = size;
  void* out = size < std::size_t{512} << 20 ? std::malloc(size) : nullptr;
  if (out == nullptr) throw std::bad_alloc();
  return out;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
