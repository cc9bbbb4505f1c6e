// Draws of a size or an int, as a function of seed, call, place and rank only. So the same seed
// gives the same calls, in any order and from any thread, and a rank keeps its sizes in a larger
// world.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include <lockstep/worker/simulator/draw/distribution.h>

namespace lockstep::worker::simulator {

/// Mixes `part`, one part of a draw's place, into `state` (splitmix64).
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t state, std::uint64_t part) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15ull + part;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Returns the place of a call, from which the places of its draws are mixed. Seeds are spread far
/// apart, so that the calls of one seed are not those of the next seed shifted by one.
[[nodiscard]] constexpr std::uint64_t call_place(std::uint64_t seed, std::uint64_t call) {
  return mixed(1 + (seed - 1) * 0xD1342543DE82EF95ull, call);
}

/// Determines which ranks draw the same value: those with equal coordinates on some axes of the
/// world.
struct Sharing {
  /// An axis of the world. A rank's coordinate is (rank / stride) % size.
  struct Axis {
    std::int64_t stride = 1, size = 1;
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // slowest first; empty: all ranks draw the same
  bool every_call = true;  // false: one draw for the whole run, by source and dim

  [[nodiscard]] bool all_ranks() const { return axes.empty(); }
  /// True if each of `world_size` ranks draws its own value.
  [[nodiscard]] bool each_rank(int world_size) const {
    return axes.size() == 1 && axes[0].stride == 1 && axes[0].size >= world_size;
  }
  /// Returns the number of the rank's group, from 0.
  [[nodiscard]] std::int64_t group_of(std::int64_t rank) const {
    std::int64_t out = 0;
    for (const Axis& axis : axes) out = out * axis.size + rank / axis.stride % axis.size;
    return out;
  }
  /// Returns the number of groups.
  [[nodiscard]] std::int64_t groups() const;
  bool operator==(const Sharing&) const = default;
};

/// `total` divided into shares as even as possible, in the order of groups.
struct Share {
  std::int64_t total = 0;
  bool operator==(const Share&) const = default;
};
/// `total` divided into batches of `batch`, in the order of groups: full batches, then at most one
/// smaller, then empty ones.
struct Batches {
  std::int64_t total = 0, batch = 1;
  bool operator==(const Batches&) const = default;
};

/// Immutable once read; may be used from several threads.
struct Draw {
  std::string source;
  std::optional<std::size_t> dim;  // nullopt: an int
  std::variant<Distribution, Share, Batches> from;
  Sharing per;

  /// Returns the draw's place: the seed mixed with the call and `index`, the draw's number in the
  /// call. Computed once per call.
  [[nodiscard]] std::uint64_t place(std::uint64_t seed, std::uint64_t call,
                                    std::uint64_t index) const;
  /// Returns the value of `rank` at this place.
  [[nodiscard]] std::int64_t at(std::uint64_t place, std::int32_t rank) const;
  /// Returns bounds that no drawn value exceeds.
  [[nodiscard]] Bounds reach() const;

  bool operator==(const Draw&) const = default;
};

}  // namespace lockstep::worker::simulator
