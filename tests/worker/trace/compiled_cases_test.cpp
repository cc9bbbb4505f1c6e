// Every case of one rank, forward and backward, traced into one graph and compiled: what the
// compiler makes of real traces, beside the interpreter. As CUDA text: cases_on_device_test.cpp.
#include "compiled_graph.h"
#include "ops/joined_cases.h"
#include <gtest/gtest.h>

namespace lockstep::worker::compiled_cases_test {
namespace {

TEST(CompiledCases, AllInOneGraph_AgreeWithTheInterpreter_AtSizes0125) {
  const test::JoinedCases cases(1);
  const Result<Graph> graph = cases.traced();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  const std::unique_ptr<Executable> executable = compile(*graph);
  ASSERT_NE(executable, nullptr);
  for (const auto& [n, m] : test::case_sizes()) {
    SCOPED_TRACE("n " + std::to_string(n) + " m " + std::to_string(m));
    const Inputs inputs = cases.inputs(n, m, 5)[0];
    const auto expected = run_interpreted(*graph, inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().text();
    const auto got = run_compiled(*executable, inputs);
    ASSERT_TRUE(got.has_value()) << got.error().text();
    for (std::size_t i = 0; i < expected->size(); ++i)
      EXPECT_TRUE(same({(*got)[i]}, {(*expected)[i]}, 1e-9)) << graph->outputs[i].name;
  }
}

}  // namespace
}  // namespace lockstep::worker::compiled_cases_test
