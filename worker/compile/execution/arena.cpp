#include <algorithm>
#include <bit>
#include <cstdlib>

#include <lockstep/worker/compile/execution/arena.h>

namespace lockstep::worker {
namespace {

/// Rounds up to a multiple of an eighth of the largest power of two up to `bytes`, so that sizes
/// that vary from call to call find the same block.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step =
      std::max(Arena::kAlignment, std::bit_floor(std::max<std::size_t>(bytes, 1)) / 8);
  return std::max((bytes + step - 1) / step * step, Arena::kAlignment);
}

}  // namespace

void Arena::Free::operator()(void* block) const { std::free(block); }

void* Arena::take(std::size_t bytes) {
  const auto fits = [&](const Block& block) { return !block.taken && block.bytes >= bytes; };
  auto found = std::ranges::find_if(blocks_, fits);
  if (found == blocks_.end()) {
    const std::size_t size = rounded(bytes);
    void* memory = std::aligned_alloc(kAlignment, size);
    if (memory == nullptr) return nullptr;
    const auto at = std::ranges::upper_bound(blocks_, size, {}, &Block::bytes);
    found = blocks_.insert(at, Block{std::unique_ptr<void, Free>(memory), size, false});
  }
  found->taken = true;
  return found->memory.get();
}

void Arena::give_back(void* block) {
  const auto found =
      std::ranges::find_if(blocks_, [&](const Block& b) { return b.memory.get() == block; });
  if (found != blocks_.end()) found->taken = false;
}

void Arena::give_back_all() {
  for (Block& block : blocks_) block.taken = false;
}

std::size_t Arena::bytes() const {
  std::size_t total = 0;
  for (const Block& block : blocks_) total += block.bytes;
  return total;
}

}  // namespace lockstep::worker
