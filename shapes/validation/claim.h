// One claim of a validation: wherever premises hold, so does a conclusion. Internal to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/shapes/validation/point_search.h>
#include <lockstep/shapes/validation/smt_query.h>

namespace lockstep::shapes {

/// The predicate has a value, and it is that one.
struct Premise {
  Predicate predicate;
  bool value = true;
  bool operator==(const Premise&) const = default;
};

struct Conclusion {
  enum class Kind : std::uint8_t {
    NotOther,  // where the predicate has a value, that is the premise's
    Met,       // the premise is met
    Same,      // where `before` has a value, `after` has the same
  };
  Kind kind = Kind::NotOther;
  Premise premise;     // NotOther and Met
  Expr before, after;  // Same

  [[nodiscard]] std::vector<Symbol> symbols() const;
  [[nodiscard]] bool fails_at(const Point& point) const;
  void require_failure(SmtQuery& query) const;
};

/// The premises that share symbols with the conclusion, directly or through each other, and all the
/// symbols of both. What is left out is about other symbols: it could only matter by contradicting
/// itself.
struct Claim {
  std::vector<Premise> premises;
  Conclusion conclusion;
  std::vector<ShapeEnv::SymbolRecord> symbols;

  static Claim of(const std::vector<Premise>& all, Conclusion conclusion,
                  const std::vector<ShapeEnv::SymbolRecord>& symbols);
  [[nodiscard]] bool fails_at(const Point& point) const;
  /// A question whose answers are the points at which the claim fails.
  [[nodiscard]] std::string query() const;
};

}  // namespace lockstep::shapes
