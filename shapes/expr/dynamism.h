// The automatic-dynamic lattice: what has been seen of one source, over calls and over ranks.
// unset ⊑ static n ⊑ dynamic, per field; the join is commutative, associative and idempotent, so it
// can be reduced by a tree in any order (semantics: PyTorch's automatic dynamic shapes, with the
// smallest size seen kept beside it).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::shapes {

/// One lattice cell: nothing seen, one value seen, or more than one.
struct Seen {
  enum class State : std::uint8_t { Unset, Static, Dynamic = 3 };  // as profiles and records count
  State state = State::Unset;
  std::int64_t value = 0;  // Static

  [[nodiscard]] static Seen unset() { return {}; }
  [[nodiscard]] static Seen constant(std::int64_t v) { return {State::Static, v}; }
  [[nodiscard]] static Seen dynamic() { return {State::Dynamic, 0}; }
  bool operator==(const Seen&) const = default;
};
[[nodiscard]] Seen join(const Seen& a, const Seen& b);

/// A field with one cell per dim: unset, a tuple, or dynamic as a whole ("not even the number of
/// dims is known").
struct SeenDims {
  enum class State : std::uint8_t { Unset, Tuple, Dynamic };
  State state = State::Unset;
  std::vector<Seen> dims;
  [[nodiscard]] bool dynamic(std::size_t dim) const;
  bool operator==(const SeenDims&) const = default;
};
[[nodiscard]] SeenDims join(const SeenDims& a, const SeenDims& b);

/// All that is known of one source. The default value is bottom: nothing seen.
struct Dynamism {
  Seen scalar;
  SeenDims size;
  /// Smallest size seen per dim index; joined by minimum, longer list wins where lengths differ
  /// (INT64_MAX: never seen).
  std::vector<std::int64_t> smallest;

  /// An int argument: (v, dynamic).
  [[nodiscard]] static Dynamism of_int(std::int64_t value);
  /// A tensor: (dynamic, sizes).
  [[nodiscard]] static Dynamism of_tensor(std::span<const std::int64_t> sizes);
  bool operator==(const Dynamism&) const = default;
};
[[nodiscard]] Dynamism join(const Dynamism& a, const Dynamism& b);

}  // namespace lockstep::shapes
