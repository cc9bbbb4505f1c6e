// Translation validation: what a trace emits (guards, deferred asserts, ranges, replacements,
// simplified sizes) against what its program asked. Called by tests and on request, with the Z3 of
// the build where there is one; never by anything that decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {

/// Both sides of one trace, over the same symbols. Plain data: a test may put a wrong one together.
struct Transcript {
  std::vector<ShapeEnv::SymbolRecord> symbols;
  std::vector<Guard> declared;
  std::vector<ShapeEnv::Asked> asked;
  std::vector<Guard> guards;
  std::vector<DeferredAssert> asserts;
  std::map<Symbol, Expr> replacements;
  /// Expressions of the program, and what stands for them in the graph.
  std::vector<std::pair<Expr, Expr>> rewritten;
};
[[nodiscard]] Transcript transcript_of(const ShapeEnv& env);

/// Something that is not so, with sizes that show it. Every one was evaluated: no finding rests on
/// the solver alone.
struct Finding {
  enum class Kind : std::uint8_t {
    Unsound,   // a run gets past guards and asserts, and the program would not do what was traced
    Stronger,  // a guard or assert turns away a run that would do what was traced
    // Stronger, and its line asks about an unbacked symbol: it settles that for all values, as
    // promised. Told, not held against the trace.
    Sufficient,
  };
  Kind kind = Kind::Unsound;
  std::string text;  // one sentence in source names, with the user's line
  std::map<Symbol, std::int64_t> at;
};

struct Validation {
  std::size_t proven = 0;         // by the solver, or because both sides are the same predicate
  std::size_t searched = 0;       // by looking at every point of a small domain
  std::vector<std::string> open;  // neither: not a success
  std::vector<Finding> findings;
  /// Nothing is open, unsound or stronger.
  [[nodiscard]] bool holds() const;
  /// "12 proven, 3 searched, 1 open, 0 findings", then open ones and findings, a line each.
  [[nodiscard]] std::string text() const;
};

struct ValidationLimits {
  unsigned solver_steps = 500'000;  // per claim, in the solver's own unit
  std::size_t points = 20'000;        // per claim, where the solver does not know
};

/// Puts these claims to the solver, then, where that does not know, to all points of the domain, or
/// to a part of a large one, which refutes but does not prove:
/// - guards and asserts imply every answer, wherever what was asked has a value; and every
///   replacement, narrowed range and rewritten expression;
/// - all answers imply every guard and assert, so nothing is turned away without need;
/// - guards mention no unbacked symbols.
/// Declared ranges and relations hold on both sides. A guard or assert without a value does not
/// hold.
[[nodiscard]] Validation validate(const Transcript& transcript,
                                  const ValidationLimits& limits = {});

}  // namespace lockstep::shapes
