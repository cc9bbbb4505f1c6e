// The other sizes that fail in the same way as the agreed sizes.
#include <utility>

#include <lockstep/shapes/expr/evaluation.h>
#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
// If the failure depends on data, or on no size, all sizes with the same earlier answers fail in
// the same way.
void ShapeEnv::fails(std::optional<Predicate> when, const Location& where) {
  if (when && (when->expr.has_unbacked() || when->constant())) when.reset();
  failed_ = Failed{std::move(when), where, false};
}

void ShapeEnv::fails_unless_all_vanish(const std::vector<Expr>& coefficients,
                                       const Location& where) {
  fails(std::nullopt, where);
  try {
    Expr squares = 0;
    for (const Expr& coefficient : coefficients) {
      if (coefficient.constant() && coefficient != 0) return;
      squares = squares + coefficient * coefficient;
    }
    fails(not_equal(coefficients.size() == 1 ? coefficients[0] : squares, 0), where);
  } catch (const OverflowError&) {
    failed_->only_here = true;
  }
}

void ShapeEnv::fails_without_value(const Expr& expr, const Location& where) {
  const auto divisor = zero_divisor(expr, hints());
  fails(divisor ? std::optional(equal(*divisor, 0)) : std::nullopt, where);
  failed_->only_here = !divisor;
}

}  // namespace lockstep::shapes
