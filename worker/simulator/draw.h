// What a draw of the generator is: a pure function of seed, call, place and rank, so that any
// rank's sizes of any call can be made at any time, by any thread, and need not be kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::worker::simulator {

/// A size or int that is drawn. Immutable once read.
struct Draw {
  std::string source;
  std::optional<std::size_t> dim;     // nullopt: an int
  std::int64_t low = 0, high = 0;     // uniform, both included
  std::vector<std::int64_t> choices;  // where not empty: one of these
  bool per_rank = true;               // else the same on all ranks

  /// The draw with number `index` among those of generated call `call`.
  [[nodiscard]] static std::uint64_t place(std::uint64_t seed, std::uint64_t call,
                                           std::uint64_t index);
  /// What the rank gets there.
  [[nodiscard]] std::int64_t at(std::uint64_t place, std::int32_t rank) const;

  bool operator==(const Draw&) const = default;
};

/// One step of splitmix64 over a state and what is mixed into it.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t state, std::uint64_t part) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15ull + part;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace lockstep::worker::simulator
