// Values of inputs, besides sizes, that a rank knows before a graph runs: the integer in a 0-d
// tensor, and comparisons of float inputs. A traced function may branch on them. The branch follows
// the value of the group's lowest rank and makes a guard that every rank tests on its own inputs.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::worker {

/// An integer as a function of inputs, in postfix order: a single Input is the integer in a 0-d
/// tensor; otherwise floats are compared, and the value is 0 or 1. A guard mentions it as a backed
/// symbol whose source is text(). text() and evaluate() require well_formed().
struct HostValue {
  enum class Code : std::uint8_t {
    Input,   // source
    Number,  // number
    Neg,
    Not,
    Add,
    Sub,
    Mul,
    Div,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
  };
  struct Step {
    Code code = Code::Input;
    std::string source{};
    double number = 0;
    bool operator==(const Step& other) const {
      return code == other.code && source == other.source &&
             std::bit_cast<std::uint64_t>(number) == std::bit_cast<std::uint64_t>(other.number);
    }
  };
  std::vector<Step> steps;
  bool operator==(const HostValue&) const = default;

  /// True if the steps leave one number and all sources are scalars.
  [[nodiscard]] bool well_formed(const std::function<bool(std::string_view)>& is_scalar) const;
  /// "t.item()", "((lr * 2) > 0.5)"
  [[nodiscard]] std::string text() const;
  /// Returns a source's scalar: the integer in a 0-d tensor, or the bits of a float. If it returns
  /// nullopt, so does evaluate().
  using Scalars = std::function<std::optional<std::int64_t>(std::string_view source)>;
  [[nodiscard]] std::optional<std::int64_t> evaluate(const Scalars& scalar) const;
};

/// Number of operands that a step takes off the stack: 0, 1 or 2.
[[nodiscard]] int operands(HostValue::Code code);
/// "+", ">", "input": as records spell it.
[[nodiscard]] std::string_view host_code_name(HostValue::Code code);
inline constexpr int kHostCodes = static_cast<int>(HostValue::Code::Or) + 1;

}  // namespace lockstep::worker
