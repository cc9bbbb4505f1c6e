// Random expressions with a direct evaluation to compare against: each is built twice from the same
// choices, once as an Expr and once as a tree that is evaluated as written.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::shapes::testing {

inline constexpr std::size_t kSymbols = 4;  // s0, s1, u0, u1
using Values = std::array<std::int64_t, kSymbols>;

inline Symbol symbol_at(std::size_t i) { return {i >= 2, static_cast<std::uint32_t>(i % 2)}; }
inline Valuation valuation(const Values& values) {
  return [&values](Symbol s) -> std::optional<std::int64_t> {
    return values[s.serial + (s.unbacked ? 2 : 0)];
  };
}

struct Written {
  enum class Kind { Number, Symbol, Add, Sub, Mul, FloorDiv, Mod, Min, Max } kind = Kind::Number;
  std::int64_t number = 0;
  std::size_t symbol = 0;
  std::shared_ptr<const Written> a, b;

  [[nodiscard]] std::optional<std::int64_t> value(const Values& values) const;
  [[nodiscard]] Expr expr() const;
};

/// A tree of at most `depth` levels over the first `symbols` symbols.
Written random_written(std::mt19937_64& random, int depth, std::size_t symbols = kSymbols);
Predicate random_predicate(std::mt19937_64& random, const Expr& a, const Expr& b, int& kind);
/// The relation number `kind` that random_predicate chose.
bool relation_holds(int kind, std::int64_t a, std::int64_t b);

}  // namespace lockstep::shapes::testing
