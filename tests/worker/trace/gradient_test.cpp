// Gradients against finite differences, and symbolic sizes against numbers, for every op.
#include <cmath>
#include <set>

#include "ops/op_cases.h"
#include "rank_threads.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/gradients.h>

namespace lockstep::worker::gradient_test {
namespace {

using test::OpCase;

/// The case's result, weighted and summed, and its gradients by the floating-point inputs.
Graph traced(const OpCase& op_case, const Decision& decision, bool backward) {
  Result<Graph> graph = trace(test::setup(decision, op_case.ranks), [&](Trace& t) {
    std::vector<Tensor> inputs, floats;
    for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
      inputs.push_back(t.tensor_input(i));
      if (inputs.back().dtype() == DType::F64) floats.push_back(inputs.back());
    }
    const Tensor y = op_case.body(t, inputs);
    t.output("y", y);
    if (!backward) return;
    const std::size_t guards = t.env().guards().size(), asserts = t.env().deferred_asserts().size();
    const std::size_t symbols = t.env().symbols().size();
    t.env().freeze();
    // Weights that differ from element to element, so that no gradient is right by symmetry.
    Tensor weights = full_like(y, 0.3);
    for (int d = 0; d < y.ndim(); ++d)
      weights = weights * (cast(iota(y.sizes(), d), DType::F64) * 0.7 + 0.6);
    const Tensor loss = sum(y * weights);
    t.output("loss", loss);
    const std::vector<Tensor> grads = grad(loss, std::span<const Tensor>(floats));
    for (std::size_t i = 0; i < grads.size(); ++i) {
      EXPECT_EQ(meta_of(grads[i]), meta_of(floats[i])) << op_case.name;
      t.output("grad" + std::to_string(i), grads[i]);
    }
    EXPECT_EQ(t.env().guards().size(), guards) << op_case.name;
    EXPECT_EQ(t.env().deferred_asserts().size(), asserts) << op_case.name;
    EXPECT_EQ(t.env().symbols().size(), symbols) << op_case.name;
  });
  EXPECT_TRUE(graph.has_value()) << op_case.name << ": " << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}

std::vector<Inputs> inputs_of(const OpCase& op_case,
                              const std::vector<std::vector<Array>>& values) {
  std::vector<Inputs> inputs(values.size());
  for (std::size_t r = 0; r < values.size(); ++r)
    for (std::size_t i = 0; i < op_case.inputs.size(); ++i)
      inputs[r][test::case_input_name(i)] = values[r][i];
  return inputs;
}

std::vector<std::vector<Array>> run(const OpCase& op_case, const Graph& graph,
                                    const std::vector<std::vector<Array>>& values) {
  return test::run_on_ranks(std::vector<Graph>(values.size(), graph), inputs_of(op_case, values));
}

double total_loss(const OpCase& op_case, const Graph& graph,
                  const std::vector<std::vector<Array>>& values) {
  double total = 0;
  for (const std::vector<Array>& outputs : run(op_case, graph, values))
    total += outputs.at(1).at(0);
  return total;
}

/// Values per rank; ranks of one group differ in N where the case allows it.
std::vector<std::vector<Array>> values_of(const OpCase& op_case, std::int64_t n, std::int64_t m,
                                          std::uint64_t seed) {
  std::vector<std::vector<Array>> values;
  for (int r = 0; r < op_case.ranks; ++r)
    values.push_back(test::case_values(op_case, n + r, m, r, seed));
  return values;
}

void check_gradients(const OpCase& op_case, std::int64_t n, std::int64_t m, std::uint64_t seed) {
  SCOPED_TRACE(op_case.name + " seed " + std::to_string(seed));
  const Graph graph = traced(op_case, test::case_decision(op_case, n, m, true), true);
  std::vector<std::vector<Array>> values = values_of(op_case, n, m, seed);
  const std::vector<std::vector<Array>> outputs = run(op_case, graph, values);
  constexpr double kStep = 1e-5;
  for (std::size_t r = 0; r < values.size(); ++r) {
    std::size_t next = 2;
    for (std::size_t i = 0; i < values[r].size(); ++i) {
      if (values[r][i].dtype() != DType::F64) continue;
      ASSERT_GT(outputs[r].size(), next);
      const Array& gradient = outputs[r][next++];
      for (std::int64_t e = 0; e < values[r][i].elements(); ++e) {
        const double at = values[r][i].at(e);
        values[r][i].set(e, at + kStep);
        const double above = total_loss(op_case, graph, values);
        values[r][i].set(e, at - kStep);
        const double below = total_loss(op_case, graph, values);
        values[r][i].set(e, at);
        const double expected = (above - below) / (2 * kStep);
        ASSERT_NEAR(gradient.at(e), expected, 2e-6 * (1 + std::fabs(expected)))
            << "rank " << r << " input " << i << " element " << e << "\n"
            << graph.text();
      }
    }
  }
}

TEST(Gradient, EveryCase_MatchesFiniteDifferences) {
  for (const OpCase& op_case : test::op_cases()) {
    if (op_case.name == "detach" || op_case.name == "broadcast") continue;  // gradients stop there
    for (std::uint64_t seed = 1; seed <= 2; ++seed) check_gradients(op_case, 3, 2, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Gradient, EveryCase_WorksOnEmptyAndSingleRows) {
  for (const OpCase& op_case : test::op_cases())
    for (const std::int64_t n : {0, 1})
      for (const std::int64_t m : {0, 1}) {
        SCOPED_TRACE(op_case.name + " n " + std::to_string(n) + " m " + std::to_string(m));
        const Graph graph = traced(op_case, test::case_decision(op_case, 5, 4, true), true);
        const auto values = values_of(op_case, n, m, 7);
        const auto outputs = run(op_case, graph, values);
        for (std::size_t r = 0; r < outputs.size(); ++r) {
          std::size_t next = 2;
          for (const Array& value : values[r])
            if (value.dtype() == DType::F64) {
              ASSERT_GT(outputs[r].size(), next);
              EXPECT_EQ(outputs[r][next++].sizes(), value.sizes());
            }
        }
      }
}

TEST(Gradient, EveryOpOfTheTable_IsInACase) {
  std::set<Op> seen;
  for (const OpCase& op_case : test::op_cases())
    for (const Node& node : traced(op_case, test::case_decision(op_case, 3, 2, true), false).nodes)
      seen.insert(node.op);
  for (const OpRow& row : kOps) EXPECT_TRUE(seen.contains(row.op)) << row.name;
}

/// Sums to rounding: where a number joins two dims, their elements are one run.
bool same(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    if (a.at(i) != b.at(i) && !(std::abs(a.at(i) - b.at(i)) <= 1e-15 * std::abs(b.at(i))) &&
        !(std::isnan(a.at(i)) && std::isnan(b.at(i))))
      return false;
  return true;
}

TEST(Shapes, SymbolicSizes_GiveWhatNumbersGive_AtSizes0125) {
  for (const OpCase& op_case : test::op_cases()) {
    const Graph symbolic = traced(op_case, test::case_decision(op_case, 5, 4, true), true);
    for (const std::int64_t n : {0, 1, 2, 5})
      for (const std::int64_t m : {0, 1, 2, 5}) {
        SCOPED_TRACE(op_case.name + " n " + std::to_string(n) + " m " + std::to_string(m));
        std::vector<std::vector<Array>> values;
        std::vector<Graph> fixed;
        for (int r = 0; r < op_case.ranks; ++r) {
          values.push_back(test::case_values(op_case, n, m, r, 11));
          fixed.push_back(traced(op_case, test::case_decision(op_case, n, m, false), true));
        }
        const auto a = run(op_case, symbolic, values);
        const auto b = test::run_on_ranks(fixed, inputs_of(op_case, values));
        for (std::size_t r = 0; r < a.size(); ++r) {
          ASSERT_EQ(a[r].size(), b[r].size());
          for (std::size_t o = 0; o < a[r].size(); ++o)
            EXPECT_TRUE(same(a[r][o], b[r][o])) << symbolic.outputs[o].name;
        }
      }
  }
}

TEST(Shapes, NoOpAsksTheHints) {
  for (const OpCase& op_case : test::op_cases()) {
    const Graph at_5 = traced(op_case, test::case_decision(op_case, 5, 4, true), true);
    const Graph at_1 = traced(op_case, test::case_decision(op_case, 1, 1, true), true);
    const Graph at_0 = traced(op_case, test::case_decision(op_case, 0, 0, true), true);
    EXPECT_EQ(at_5.text(), at_1.text()) << op_case.name;
    EXPECT_EQ(at_5.fingerprint(), at_0.fingerprint()) << op_case.name;
    EXPECT_TRUE(at_5.guards.empty()) << op_case.name << "\n" << at_5.text();
  }
}

}  // namespace
}  // namespace lockstep::worker::gradient_test
