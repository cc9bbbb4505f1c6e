// Decides whether linear relations of whole numbers contradict each other. Equalities are solved as
// in Euclid's algorithm, inequalities by Fourier-Motzkin elimination. Internal to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {

/// A conjunction of relations. Conservative: a row with a number past 2^62 is left out. So every
/// contradiction found is real, but some are not found. A value; one thread.
class LinearSystem {
 public:
  using Variable = std::uint32_t;
  struct Part {
    Variable variable = 0;
    Wide coefficient = 0;
    auto operator<=>(const Part&) const = default;
  };
  /// A sum of parts and a constant.
  struct Row {
    std::vector<Part> parts;  // by variable; coefficients not zero
    Wide constant = 0;
  };
  /// a + k*b; nullopt if a number does not fit.
  [[nodiscard]] static std::optional<Row> sum(const Row& a, Wide k, const Row& b);

  void require(Predicate::Relation relation, const Row& row);
  enum class Trying : std::uint8_t { No, Yes };
  /// True: no whole numbers satisfy all relations. False: this is not proven. Solves the
  /// equalities, then eliminates variables from the inequalities, then, if `trying` is Yes, tries
  /// the values of a variable that has few values. Subtracts about one step per part of a row from
  /// `fuel`, and returns false once no fuel is left.
  [[nodiscard]] bool is_contradictory(Trying trying, int& fuel) const;
  /// Bounds of the variable, found by eliminating all other variables.
  [[nodiscard]] Range range(Variable variable, int& fuel) const;

 private:
  /// Bounds of a sum without constant whose coefficients have no common factor.
  struct Known {
    Wide lower, upper;  // -kNone (lower) or kNone (upper): no bound
    std::set<Wide> excluded;
  };
  using Sums = std::map<std::vector<Part>, Known>;

  [[nodiscard]] bool refuted(Trying trying, int& fuel);
  void solve_equalities(int& fuel);
  void solve(std::vector<Part> parts, Wide value, int& fuel);
  void substitute(Variable variable, const Row& by, int& fuel);
  [[nodiscard]] bool eliminated_to_nothing(int& fuel) const;
  void eliminate(Variable variable, int& fuel);
  [[nodiscard]] std::optional<Variable> cheapest(std::optional<Variable> kept) const;
  [[nodiscard]] Wide least(const Part& part) const;
  void add_bounds(const std::vector<Part>& parts, const Known& known, const Part& of,
                  std::vector<Row>& out) const;
  void narrow_variables(int& fuel);
  struct Candidate {
    Variable variable;
    Wide lower, upper;
  };
  [[nodiscard]] std::optional<Candidate> narrowest(int& fuel) const;
  [[nodiscard]] bool refuted_by_trying(int& fuel) const;

  Sums sums_;
  bool contradictory_ = false;
};

}  // namespace lockstep::shapes
