// Every case of one rank, forward and backward, traced into one graph and compiled: what the
// compiler makes of real traces, beside the interpreter.
#include "compiled_graph.h"
#include "op_cases.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/autodiff/autodiff.h>
#include <lockstep/worker/language/tensor_ops.h>

namespace lockstep::worker::compiled_cases_test {
namespace {

using test::OpCase;

std::string input_name(const OpCase& op_case, std::size_t i) {
  return op_case.name + "." + test::case_input_name(i);
}

Decision all_cases_decision() {
  Decision all;
  for (const OpCase& op_case : test::op_cases()) {
    if (op_case.ranks != 1) continue;
    Decision one = test::case_decision(op_case, 5, 4, true);
    for (std::size_t i = 0; i < one.sources.size(); ++i) {
      one.sources[i].spec.name = input_name(op_case, i);
      for (DimDecision& dim : one.sources[i].dims)
        if (dim.is_symbol) dim.symbol += static_cast<std::uint32_t>(all.symbols.size());
      all.sources.push_back(one.sources[i]);
    }
    for (SymbolDecision& symbol : one.symbols) symbol.source = op_case.name + "." + symbol.source;
    all.symbols.insert(all.symbols.end(), one.symbols.begin(), one.symbols.end());
  }
  return all;
}

void trace_case(Trace& t, const OpCase& op_case) {
  std::vector<Tensor> inputs, floats;
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    inputs.push_back(t.tensor_input(t.source(input_name(op_case, i))));
    if (inputs.back().dtype() == DType::F64) floats.push_back(inputs.back());
  }
  const Tensor y = op_case.body(t, inputs);
  t.output(op_case.name, y);
  const std::vector<Tensor> grads = grad(sum(y * y), std::span<const Tensor>(floats));
  for (std::size_t i = 0; i < grads.size(); ++i)
    t.output(op_case.name + ".grad" + std::to_string(i), grads[i]);
}

TEST(CompiledCases, AllInOneGraph_AgreeWithTheInterpreter) {
  const Decision decision = all_cases_decision();
  const Result<Graph> graph = trace(test::setup(decision), [](Trace& t) {
    for (const OpCase& op_case : test::op_cases())
      if (op_case.ranks == 1) trace_case(t, op_case);
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  const std::unique_ptr<Executable> executable = compile(*graph);
  ASSERT_NE(executable, nullptr);
  for (const auto& [n, m] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {0, 3}, {1, 1}, {3, 0}, {5, 4}, {17, 9}}) {
    SCOPED_TRACE("n " + std::to_string(n) + " m " + std::to_string(m));
    Inputs inputs;
    const std::vector<double> zero{0};
    inputs["job.rank"] = Array::of(DType::I64, {}, zero);
    for (const OpCase& op_case : test::op_cases()) {
      if (op_case.ranks != 1) continue;
      const std::vector<Array> values = test::case_values(op_case, n, m, 0, 5);
      for (std::size_t i = 0; i < values.size(); ++i) inputs[input_name(op_case, i)] = values[i];
    }
    EXPECT_TRUE(agree(*executable, inputs, 1e-9));
  }
}

}  // namespace
}  // namespace lockstep::worker::compiled_cases_test
