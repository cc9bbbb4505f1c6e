// Small programs that together use every op of the table, with inputs to run them on. Tests check
// gradients against finite differences, and symbolic sizes against numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::test {

/// A dim of a case's input: a number, or the case's first or second free size.
struct CaseDim {
  enum class Which : std::uint8_t { Fixed, N, M } which = Which::Fixed;
  std::int64_t value = 0;
};
inline constexpr CaseDim kN{CaseDim::Which::N, 0}, kM{CaseDim::Which::M, 0};
inline constexpr CaseDim fixed(std::int64_t n) { return {CaseDim::Which::Fixed, n}; }

struct CaseInput {
  enum class Fill : std::uint8_t {
    Signed,    // f64, away from 0
    Positive,  // f64, at least 0.5
    Splits,    // i64, adds up to the case's N
    Order,     // i64, 0, 1, ... shuffled
  };
  Fill fill = Fill::Signed;
  std::vector<CaseDim> dims;
};

struct OpCase {
  std::string name;
  std::vector<CaseInput> inputs;  // named a, b, c, ... in order
  std::function<Tensor(Trace&, const std::vector<Tensor>&)> body;
  int ranks = 1;
};

[[nodiscard]] const std::vector<OpCase>& op_cases();

/// Values of the inputs on one rank for given sizes; a function of its arguments only.
[[nodiscard]] std::vector<Array> case_values(const OpCase& op_case, std::int64_t n, std::int64_t m,
                                             int rank, std::uint64_t seed);
/// A decision for the case. If `symbolic`, every free size is a symbol of its own, with the given
/// size as hint and lower bound 0; otherwise all sizes are numbers.
[[nodiscard]] Decision case_decision(const OpCase& op_case, std::int64_t n, std::int64_t m,
                                     bool symbolic);
/// "a", "b", ...
[[nodiscard]] std::string case_input_name(std::size_t i);

}  // namespace lockstep::worker::test
