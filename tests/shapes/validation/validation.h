// Translation validation: compares the output of a trace (guards, deferred asserts, ranges,
// replacements, simplified sizes) with the questions of its program. For tests, with Z3 if the
// build has it; no decision calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {

/// Questions and output of one trace, over the same symbols. Plain data, so a test can make a wrong
/// one.
struct Transcript {
  std::vector<ShapeEnv::SymbolRecord> symbols;
  std::vector<Guard> declared;
  std::vector<ShapeEnv::Asked> asked;
  std::vector<Guard> guards;
  std::vector<DeferredAssert> asserts;
  std::map<Symbol, Expr> replacements;
  /// Expressions of the program, each with the one that replaces it in the graph.
  std::vector<std::pair<Expr, Expr>> rewritten;
};
[[nodiscard]] Transcript transcript_of(const ShapeEnv& env);

/// A claim that is false, with sizes that show it. Evaluation has confirmed each finding: none
/// rests on the solver alone.
struct Finding {
  enum class Kind : std::uint8_t {
    Unsound,   // a run passes guards and asserts, but the program would behave differently
    Stronger,  // a guard or assert rejects a run that would behave as traced
    // Stronger, and its line asks about an unbacked symbol: the guard answers for all values of the
    // symbol, by design. Reported, but not a failure.
    Sufficient,
  };
  Kind kind = Kind::Unsound;
  std::string text;  // one sentence in source names, with the user's line
  std::map<Symbol, std::int64_t> at;
};

struct Validation {
  std::size_t proven = 0;         // by the solver, or because both sides are the same predicate
  std::size_t searched = 0;       // by testing every point of a small domain
  std::vector<std::string> open;  // neither proven nor refuted: not a success
  std::vector<Finding> findings;
  /// Nothing is open, unsound or stronger.
  [[nodiscard]] bool holds() const;
  /// "12 proven, 3 searched, 1 open, 0 findings", then each open claim and each finding on a line.
  [[nodiscard]] std::string text() const;
};

struct ValidationLimits {
  unsigned solver_steps = 500'000;  // per claim, in the solver's own unit
  std::size_t points = 20'000;      // per claim that the solver leaves open
};

/// Asks the solver about these claims. A claim that it leaves open is tested at all points of a
/// small domain, or at some points of a large one, which can refute but not prove:
/// - guards and asserts imply every answer, wherever the question has a value, and every
///   replacement, narrowed range and rewritten expression;
/// - all answers imply every guard and assert, so no run is rejected without need;
/// - guards mention no unbacked symbols.
/// Declared ranges and relations hold on both sides. A guard or assert without a value does not
/// hold.
[[nodiscard]] Validation validate(const Transcript& transcript,
                                  const ValidationLimits& limits = {});

}  // namespace lockstep::shapes
