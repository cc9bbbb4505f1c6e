// One claim of a validation: wherever all premises hold, the conclusion holds. Internal to this
// folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "point_search.h"
#include "smt_query.h"

namespace lockstep::shapes {

/// Met if the predicate has a value and it is `value`.
struct Premise {
  Predicate predicate;
  bool value = true;
  bool operator==(const Premise&) const = default;
};

struct Conclusion {
  enum class Kind : std::uint8_t {
    NotOther,  // if the predicate has a value, it is that of the premise
    Met,       // the premise is met
    Same,      // if `before` has a value, `after` has the same value
  };
  Kind kind = Kind::NotOther;
  Premise premise;     // NotOther and Met
  Expr before, after;  // Same

  [[nodiscard]] std::vector<Symbol> symbols() const;
  [[nodiscard]] bool fails_at(const Point& point) const;
  void require_failure(SmtQuery& query) const;
};

/// The premises that share symbols with the conclusion, directly or through each other, and all
/// symbols of both. The other premises are about other symbols; they could matter only if they
/// contradicted each other.
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
