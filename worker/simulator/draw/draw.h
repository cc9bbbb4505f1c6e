// A size or an int that is drawn: a function of seed, call, place and rank alone, so that the same
// seed gives the same calls, in any order and from any thread, and a rank keeps its sizes in a
// larger world.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include <lockstep/worker/simulator/draw/distribution.h>

namespace lockstep::worker::simulator {

/// The seed with where something stands mixed in, part by part (splitmix64).
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t state, std::uint64_t part) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15ull + part;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Where a call's draws begin. Seeds lie far apart, so that the calls of one are not those of the
/// next one, a call later.
[[nodiscard]] constexpr std::uint64_t call_place(std::uint64_t seed, std::uint64_t call) {
  return mixed(1 + (seed - 1) * 0xD1342543DE82EF95ull, call);
}

/// Which ranks draw the same: those with the same coordinates on some axes of the world.
struct Sharing {
  /// Coordinate (rank / stride) % size.
  struct Axis {
    std::int64_t stride = 1, size = 1;
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // slowest first; none: all ranks draw the same
  bool every_call = true;  // else once for the whole run, by source and dim

  [[nodiscard]] bool all_ranks() const { return axes.empty(); }
  /// No two of so many ranks share.
  [[nodiscard]] bool each_rank(int world_size) const {
    return axes.size() == 1 && axes[0].stride == 1 && axes[0].size >= world_size;
  }
  /// The number of the ranks' group, from 0.
  [[nodiscard]] std::int64_t group_of(std::int64_t rank) const {
    std::int64_t out = 0;
    for (const Axis& axis : axes) out = out * axis.size + rank / axis.stride % axis.size;
    return out;
  }
  /// How many groups there are.
  [[nodiscard]] std::int64_t groups() const;
  bool operator==(const Sharing&) const = default;
};

/// `total` dealt out in shares as even as they can be, in the order of groups.
struct Share {
  std::int64_t total = 0;
  bool operator==(const Share&) const = default;
};
/// `total` dealt out in batches of `batch` each, in the order of groups, as far as it lasts: full
/// ones, one that is not full, none.
struct Batches {
  std::int64_t total = 0, batch = 1;
  bool operator==(const Batches&) const = default;
};

/// Immutable once read; may be asked from several threads.
struct Draw {
  std::string source;
  std::optional<std::size_t> dim;  // nullopt: an int
  std::variant<Distribution, Share, Batches> from;
  Sharing per;

  /// The seed with the call and the draw's place in it, `index`, mixed in: once per call.
  [[nodiscard]] std::uint64_t place(std::uint64_t seed, std::uint64_t call,
                                    std::uint64_t index) const;
  /// What the rank gets there.
  [[nodiscard]] std::int64_t at(std::uint64_t place, std::int32_t rank) const;
  /// Nothing outside of these is drawn anywhere.
  [[nodiscard]] Bounds reach() const;

  bool operator==(const Draw&) const = default;
};

}  // namespace lockstep::worker::simulator
