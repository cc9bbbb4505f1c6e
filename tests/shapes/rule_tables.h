// The tables of rules_test: laws of arithmetic, rules and proofs, as they are written down.
#pragma once

#include "written_rules.h"

namespace lockstep::shapes::testing {

using Given = std::vector<Said>;

// `via`: steps that the solver is given, each of which it has to prove first; they have a value
// wherever the rest has.
struct Law {
  const char* name;
  Given given;
  Said then;
  Given via = {};
};
struct Rule {
  const char* name;
  Given given;
  Tree before;
  const char* after;  // as the engine prints it
  Given via = {};
};

/// What the rules rest on, with free parameters.
const std::vector<Law>& laws();
/// What the normal form does, knowing nothing.
const std::vector<Rule>& rules();
/// What simplification does, knowing that much.
const std::vector<Rule>& rules_given();
/// What the prover answers, knowing that much.
const std::vector<Law>& proofs();

/// ceil(a / b), as ceil_div has it.
Tree quotient_up(const Tree& a, const Tree& b);
/// base to the exponent, as a product.
Tree power_of(const Tree& base, int exponent);

}  // namespace lockstep::shapes::testing
