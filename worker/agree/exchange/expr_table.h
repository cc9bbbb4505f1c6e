// The sizes and offsets of one program: every distinct expression once, as a short postfix program
// over symbol values. Each expression is evaluated once per run, so that a step only copies
// numbers. An expression with unbacked symbols is evaluated when the last of these is bound.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::worker {

/// Index of an expression in its table.
using ExprSlot = std::uint32_t;

/// Immutable once all its expressions are interned.
class ExprTable {
 public:
  /// `symbols[i]` has its value at index i of evaluate's argument.
  explicit ExprTable(std::vector<shapes::Symbol> symbols) : symbols_(std::move(symbols)) {}

  /// Requires that every symbol of `expr` is one of the table's.
  ExprSlot intern(const shapes::Expr& expr);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const shapes::Expr& expr(ExprSlot slot) const { return entries_[slot].expr; }
  [[nodiscard]] const std::vector<shapes::Symbol>& symbols() const { return symbols_; }

  /// nullopt on division by zero and on overflow of an int64. `stack` is scratch memory of the
  /// caller, reused so that nothing is allocated.
  [[nodiscard]] std::optional<std::int64_t> evaluate(ExprSlot slot,
                                                     std::span<const std::int64_t> values,
                                                     std::vector<std::int64_t>& stack) const;

 private:
  enum class Code : std::uint8_t { Push, Load, Add, Mul, FloorDiv, Mod, Min, Max };
  struct Instruction {
    Code code;
    std::int64_t operand;
  };
  struct Entry {
    shapes::Expr expr;
    std::uint32_t begin, end;
  };
  void compile(const shapes::Expr& expr);
  void compile(const shapes::Expr::Factor& factor);
  std::vector<shapes::Symbol> symbols_;
  std::vector<Entry> entries_;
  std::vector<Instruction> program_;
};

}  // namespace lockstep::worker
