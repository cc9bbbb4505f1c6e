// Sizes that must be equal on every rank of a group although they are symbols. Collectives without
// splits require this of their operands, and check_same() of its argument. One fingerprint of them
// is part of the vote of every call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/agree/exchange/expr_table.h>

namespace lockstep::worker {

/// First words of the location of a uniform size that stands for a Key input, which must be the
/// same on all ranks. The input's name follows; there is no source line.
inline constexpr std::string_view kKeyInput = "the Key input ";
/// UniformSize::what of a number that is folded into a Key.
inline constexpr std::string_view kKeyFold = "Key::fold_in";

/// The requirement that `expr` is the same on all ranks of a group.
struct UniformSize {
  shapes::Expr expr;    // backed symbols only
  std::string group{};  // the group's name; empty: the frame's
  std::string what{};   // the operation that requires it: "all_reduce"
  shapes::Location where{};

  /// True for the same size over the same group; `what` and `where` are ignored.
  [[nodiscard]] bool same(const UniformSize& other) const {
    return expr == other.expr && group == other.group;
  }
};

/// Computes the values of uniform sizes in a call. Immutable.
class UniformValues {
 public:
  UniformValues() = default;
  /// `slots[i]` is the symbol whose value has index i in the arguments below.
  UniformValues(const std::vector<UniformSize>& sizes, const std::vector<shapes::Symbol>& slots);
  [[nodiscard]] bool empty() const { return slots_.empty(); }
  /// Mixes the values into `digest`.
  [[nodiscard]] std::uint64_t mixed_into(std::uint64_t digest,
                                         std::span<const std::int64_t> values) const;
  /// The values of all uniform sizes, in order; a size without a value (overflow or division by
  /// zero) is INT64_MIN.
  [[nodiscard]] std::vector<std::int64_t> of(std::span<const std::int64_t> values) const;

 private:
  ExprTable table_{{}};
  std::vector<ExprSlot> slots_;
};

/// This rank's line of the rank table that is collected if the values differ: all its values.
[[nodiscard]] std::string values_line(std::span<const std::int64_t> values);
/// The error from that rank table: the first of `sizes` that differs, with its values. `namer`
/// names the symbols.
[[nodiscard]] Status uniform_violation(const std::vector<UniformSize>& sizes,
                                       const shapes::Namer& namer, std::string_view frame,
                                       const std::vector<RankValue>& rank_table);

/// Mixes one value into a digest.
[[nodiscard]] std::uint64_t mixed(std::uint64_t digest, std::int64_t value);

}  // namespace lockstep::worker
