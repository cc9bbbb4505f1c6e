// Random numbers that are the same on every machine and compiler.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace lockstep::fuzz {

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// 0 to limit-1.
  int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }
  /// From a to b, both included.
  int between(int a, int b) { return a + below(b - a + 1); }
  bool chance(int percent) { return below(100) < percent; }
  int pick(std::initializer_list<int> from) {
    return from.begin()[below(static_cast<int>(from.size()))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::fuzz
