// Sizes that every rank of a group must have alike, though they are symbols: what a collective that
// is not given splits asks of its operand, and what check_same() says. One fingerprint of them goes
// with the vote of every call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/exchange/expr_table.h>

namespace lockstep::worker {

/// In place of a line: the input that is a Key, which must be the same; its name follows.
inline constexpr std::string_view kKeyInput = "the Key input ";
/// Who asks for what a Key is folded with.
inline constexpr std::string_view kKeyFold = "Key::fold_in";

/// `expr` is the same on all ranks of a group.
struct UniformSize {
  shapes::Expr expr;    // backed symbols only
  std::string group{};  // its name; empty: the frame's
  std::string what{};   // who asks: "all_reduce"
  shapes::Location where{};

  /// Of the same number over the same group; who asks does not count.
  [[nodiscard]] bool same(const UniformSize& other) const {
    return expr == other.expr && group == other.group;
  }
};

/// The values of such sizes in a call. Immutable.
class UniformValues {
 public:
  UniformValues() = default;
  /// `slots[i]` is the symbol whose value stands at index i of the arguments below.
  UniformValues(const std::vector<UniformSize>& sizes, const std::vector<shapes::Symbol>& slots);
  [[nodiscard]] bool empty() const { return slots_.empty(); }
  /// Mixes the values into `digest`.
  [[nodiscard]] std::uint64_t mixed_into(std::uint64_t digest,
                                         std::span<const std::int64_t> values) const;
  /// All of them, in order; a size that has no value (64 bits overflow) is INT64_MIN.
  [[nodiscard]] std::vector<std::int64_t> of(std::span<const std::int64_t> values) const;

 private:
  ExprTable table_{{}};
  std::vector<ExprSlot> slots_;
};

/// This rank's line of the rank table that follows a difference: all its values.
[[nodiscard]] std::string values_line(std::span<const std::int64_t> values);
/// The error that it comes to: the first of `sizes` that differs, with its values. Symbols have the
/// names that `namer` gives.
[[nodiscard]] Status uniform_violation(const std::vector<UniformSize>& sizes,
                                       const shapes::Namer& namer, std::string_view frame,
                                       const std::vector<RankValue>& rank_table);

/// One step of such a digest.
[[nodiscard]] std::uint64_t mixed(std::uint64_t digest, std::int64_t value);

}  // namespace lockstep::worker
