// Memory of values that live only within a run: blocks are handed out, given back and kept for the
// next run, so that in the steady state nothing is allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::worker {

/// Single-threaded.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 64;

  /// Returns at least `bytes`, aligned and uninitialised: the smallest free block that is large
  /// enough, else a new one. Null if there is no memory.
  [[nodiscard]] void* take(std::size_t bytes);
  void give_back(void* block);
  void give_back_all();
  /// Bytes of all blocks, free or not.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Free {
    void operator()(void* block) const;
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::size_t bytes = 0;
    bool taken = false;
  };
  std::vector<Block> blocks_;  // ascending by size
};

}  // namespace lockstep::worker
