// Functions of the tensor language traced by themselves and run in every way: interpreted, compiled
// for the host, and on an emulated device.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "compiled_graph.h"
#include "on_ranks.h"
#include "tracing.h"
#include <gtest/gtest.h>

namespace lockstep::worker::test {

using Numbers = std::vector<double>;
using Counts = std::vector<std::int64_t>;
using Tensors = std::vector<Tensor>;
using Body = std::function<Tensors(const Tensors&)>;

struct In {
  DType dtype;
  std::vector<Dim> dims;
};

/// "aa", "ab", ..: in the order of their numbers.
inline std::string numbered(std::size_t i) {
  return {static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26)};
}

/// Of inputs and to outputs with numbered names.
inline Result<Graph> traced(const std::vector<In>& inputs, const Body& body) {
  DecisionBuilder decision;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    decision.tensor(numbered(i), inputs[i].dtype, inputs[i].dims);
  return trace(setup(decision.get()), [&](Trace& t) {
    Tensors tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) tensors.push_back(t.tensor_input(i));
    const Tensors outputs = body(tensors);
    for (std::size_t i = 0; i < outputs.size(); ++i) t.output(numbered(i), outputs[i]);
  });
}

inline Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}

inline Inputs named(const std::vector<Array>& arrays) {
  Inputs inputs;
  for (std::size_t i = 0; i < arrays.size(); ++i) inputs[numbered(i)] = arrays[i];
  return inputs;
}

inline Array f64(const Counts& sizes, const Numbers& values) {
  return Array::of(DType::F64, sizes, values);
}

inline Numbers values(const Array& array) {
  Numbers out;
  for (std::int64_t i = 0; i < array.elements(); ++i) out.push_back(array.at(i));
  return out;
}
/// Distinct values in (-1, 1).
inline Array waves(const Counts& sizes, double phase) {
  Array out(DType::F64, sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, std::sin(static_cast<double>(i) * 1.7 + phase));
  return out;
}
inline Array each(const Array& x, const std::function<double(double)>& f) {
  Array out(x.dtype(), x.sizes());
  for (std::int64_t i = 0; i < x.elements(); ++i) out.set(i, f(x.at(i)));
  return out;
}
inline std::string message(const std::vector<In>& inputs, const Body& body) {
  const Result<Graph> graph = traced(inputs, body);
  return graph ? "" : graph.error().text();
}
inline void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nis not in\n" << message;
}

/// In every way of running it gives `expected`, floats to `bound`.
inline void expect_everywhere(OnRanks& ranks, const std::vector<Array>& inputs,
                              const std::vector<Array>& expected, double bound = 1e-12) {
  const auto check = [&](OnRanks::Run run, const char* way) {
    SCOPED_TRACE(way);
    ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
    const std::vector<Array>& got = run.ranks[0]->value();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same({got[i]}, {expected[i]}, bound)) << "output " << i;
  };
  check(ranks.interpreted({named(inputs)}), "interpreted");
  check(ranks.compiled({named(inputs)}), "compiled");
  check(ranks.on_devices({named(inputs)}, OnRanks::Way::Staged), "on a device");
}

}  // namespace lockstep::worker::test
