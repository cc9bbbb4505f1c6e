#include "traced_run.h"

#include <algorithm>

#include "tracing.h"

namespace lockstep::worker::test {
namespace {

std::string run_input_name(std::size_t i) { return "in" + std::to_string(100 + i); }

Inputs named(const std::vector<Array>& arrays) {
  Inputs out;
  for (std::size_t i = 0; i < arrays.size(); ++i) out[run_input_name(i)] = arrays[i];
  return out;
}

Result<Graph> traced_body(const std::vector<Array>& like, const TracedRun::Body& body,
                          const std::vector<std::int64_t>& fixed) {
  DecisionBuilder builder;
  for (std::size_t i = 0; i < like.size(); ++i) {
    std::vector<Dim> dims;
    for (const std::int64_t size : like[i].sizes())
      dims.push_back(std::ranges::count(fixed, size) > 0 ? Dim(size) : dynamic(size, 0));
    builder.tensor(run_input_name(i), like[i].dtype(), dims);
  }
  const Decision decision = builder.get();
  return trace(setup(decision), [&](Trace& t) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < like.size(); ++i) inputs.push_back(t.tensor_input(i));
    const std::vector<Tensor> results = body(t, inputs);
    for (std::size_t i = 0; i < results.size(); ++i)
      t.output("out" + std::to_string(i), results[i]);
  });
}

}  // namespace

TracedRun::TracedRun(const std::vector<Array>& like, const Body& body,
                     const std::vector<std::int64_t>& fixed) {
  Result<Graph> graph = traced_body(like, body, fixed);
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  if (!graph) return;
  graph_ = std::move(*graph);
  for (const Node& node : graph_.nodes)  // fails if a node has lost the user's line
    if (node.op != Op::Input) {
      EXPECT_NE(node.where.text().find("_test.cpp:"), std::string::npos) << graph_.text();
    }
  executable_ = compile(graph_);
}

std::vector<Array> TracedRun::run(const std::vector<Array>& inputs, double bound) {
  if (!executable_) return {};
  const Inputs values = named(inputs);
  Result<std::vector<Array>> out = run_interpreted(graph_, values);
  EXPECT_TRUE(out.has_value()) << out.error().text() << "\n" << graph_.text();
  EXPECT_TRUE(agree(*executable_, values, bound));
  return out ? std::move(*out) : std::vector<Array>(graph_.outputs.size());
}

std::string TracedRun::failure(const std::vector<Array>& inputs) {
  if (!executable_) return {};
  const Inputs values = named(inputs);
  EXPECT_TRUE(agree(*executable_, values, 0));
  const Result<std::vector<Array>> out = run_interpreted(graph_, values);
  EXPECT_FALSE(out.has_value());
  return out ? std::string() : out.error().text();
}

std::string refusal(const std::vector<Array>& like, const TracedRun::Body& body,
                    const std::vector<std::int64_t>& fixed) {
  const Result<Graph> graph = traced_body(like, body, fixed);
  EXPECT_FALSE(graph.has_value());
  if (graph) return {};
  std::string words = graph.error().message;  // "frame step: a_test.cpp:12: what: words"
  for (int part = 0; part < 2; ++part)
    words = words.substr(std::min(words.size(), words.find(": ") + 2));
  return words;
}

Array random_f64(std::uint64_t seed, std::vector<std::int64_t> sizes) {
  std::mt19937_64 random(seed);
  Array out(DType::F64, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, static_cast<double>(random() >> 11) * 0x1p-51 - 2);
  return out;
}

}  // namespace lockstep::worker::test
