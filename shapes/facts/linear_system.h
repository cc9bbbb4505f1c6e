// Whether linear relations of whole numbers contradict each other. Internal to this folder.
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

/// A conjunction of relations. Conservative: a row with a number past 2^62 is left out, so what is
/// found contradictory is, and what is not may be all the same. A value; one thread.
class LinearSystem {
 public:
  using Variable = std::uint32_t;
  struct Part {
    Variable variable = 0;
    Wide coefficient = 0;
    auto operator<=>(const Part&) const = default;
  };
  /// The sum of the parts and a constant.
  struct Row {
    std::vector<Part> parts;  // by variable, none with the coefficient zero
    Wide constant = 0;
  };
  /// a + k*b; nullopt where a number does not fit.
  [[nodiscard]] static std::optional<Row> sum(const Row& a, Wide k, const Row& b);

  void require(Predicate::Relation relation, const Row& row);
  enum class Trying : std::uint8_t { No, Yes };
  /// True: no whole numbers satisfy all of it. By solving the equalities, then eliminating the
  /// variables of the inequalities, then, if that is asked for, trying the values of a variable
  /// that has few. Takes steps off the fuel, about one per part of a row; false once that is spent.
  [[nodiscard]] bool is_contradictory(Trying trying, int& fuel) const;
  /// Bounds of the variable: what eliminating the others leaves.
  [[nodiscard]] Range range(Variable variable, int& fuel) const;

 private:
  /// What is known of a sum without constant whose coefficients have no common factor.
  struct Known {
    Wide lower, upper;  // kNone away from zero: no bound
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
