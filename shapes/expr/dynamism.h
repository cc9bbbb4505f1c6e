// The automatic-dynamic lattice: which sizes one source has had, over all calls and ranks. Each
// field is unset ⊑ static n ⊑ dynamic. The join is commutative, associative and idempotent, so a
// tree can reduce it in any order. The rules are those of PyTorch's automatic dynamic shapes. In
// addition the smallest size seen is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::shapes {

/// One lattice cell: nothing seen, one value seen, or more than one.
struct Seen {
  enum class State : std::uint8_t {
    Unset,
    Static,
    Dynamic = 3
  };  // the numbers are stored in profiles and records
  State state = State::Unset;
  std::int64_t value = 0;  // value of a Static cell

  [[nodiscard]] static Seen unset() { return {}; }
  [[nodiscard]] static Seen constant(std::int64_t v) { return {State::Static, v}; }
  [[nodiscard]] static Seen dynamic() { return {State::Dynamic, 0}; }
  bool operator==(const Seen&) const = default;
};
[[nodiscard]] Seen join(const Seen& a, const Seen& b);

/// A field with one cell per dim: unset, a tuple of cells, or dynamic as a whole (not even the
/// number of dims is constant).
struct SeenDims {
  enum class State : std::uint8_t { Unset, Tuple, Dynamic };
  State state = State::Unset;
  std::vector<Seen> dims;
  [[nodiscard]] bool dynamic(std::size_t dim) const;
  bool operator==(const SeenDims&) const = default;
};
[[nodiscard]] SeenDims join(const SeenDims& a, const SeenDims& b);

/// The lattice value of one source. The default is the bottom: nothing seen.
struct Dynamism {
  Seen scalar;
  SeenDims size;
  /// The smallest size seen of each dim (INT64_MAX: never seen). The join takes the minimum of each
  /// dim; dims that only the longer list has are kept.
  std::vector<std::int64_t> smallest;

  /// The cell of an int argument: scalar static, sizes dynamic as a whole.
  [[nodiscard]] static Dynamism of_int(std::int64_t value);
  /// The cell of a tensor: scalar dynamic, each size static.
  [[nodiscard]] static Dynamism of_tensor(std::span<const std::int64_t> sizes);
  bool operator==(const Dynamism&) const = default;
};
[[nodiscard]] Dynamism join(const Dynamism& a, const Dynamism& b);

}  // namespace lockstep::shapes
