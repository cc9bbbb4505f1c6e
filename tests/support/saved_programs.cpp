#include "saved_programs.h"

#include <stdexcept>

#include "tracing.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::test {
namespace {

using Several = std::vector<Tensor>;

Graph traced(const TraceSetup& made, const std::function<void(Trace&)>& body) {
  Result<Graph> graph = trace(made, body);
  if (!graph) throw std::runtime_error(graph.error().text());
  return *std::move(graph);
}

/// Sends rows to the ranks as `counts` says, and returns the received rows.
Tensor exchanged(const Tensor& x, const Tensor& counts) {
  const Tensor received = all_to_all_single(counts);
  return all_to_all_single(x, tolist(received, Values::NonNegative),
                           tolist(counts, Values::NonNegative));
}

void small_body(Trace& t) {
  const Tensor x = t.tensor_input(t.source("x"));
  const Tensor counts = t.tensor_input(t.source("counts"));
  const SymFloat lr = t.float_input(t.source("lr"));
  const SymInt n = t.int_input(t.source("n"));
  Tensor y = swish()({exchanged(x, counts)});
  if (x.size(0) * x.size(1) > 6) y = y * 2.0;
  if (group_any(x.size(0) > 3)) y = y - 1.0;
  if (lr > 0.5) y = y * lr;
  check(n > 0, "n counts something");
  const Tensor total = all_reduce(sum(y));
  const Several way = cond(
      total > 0.0, [](const Several& in) { return Several{in[0] * 2.0}; },
      [](const Several& in) { return Several{in[0] + 1.0}; }, {total});
  t.output("total", way[0]);
  t.output("grad", grad(sum(y * y), {x})[0]);
  t.output("rows", scalar(t, x.size(0) * n));
  t.output("rank", t.rank());
}

Decision small_decision(bool dynamic) {
  DecisionBuilder out;
  out.tensor("counts", DType::I64, {2});
  out.number("lr").integer("n", dynamic ? Dim(3, 0) : Dim(3));
  out.tensor("x", DType::F64, {dynamic ? Dim(5, 2) : Dim(5), 3});
  return out.get();
}

}  // namespace

SavedProgram program_of(Graph graph, Decision decision, int ranks) {
  SavedProgram out{.frame = graph.name, .ranks = ranks};
  for (const std::string& group : groups_of(graph)) out.groups[group] = ranks;
  out.entries.push_back({.decision = std::move(decision), .graph = std::move(graph)});
  return out;
}

SavedProgram program_of(const OpCase& op_case) {
  const Decision decision = case_decision(op_case, 5, 4, true);
  Graph graph = traced(setup(decision, op_case.ranks), [&](Trace& t) {
    std::vector<Tensor> inputs, floats;
    for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
      inputs.push_back(t.tensor_input(t.source(case_input_name(i))));
      if (inputs.back().dtype() == DType::F64) floats.push_back(inputs.back());
    }
    const Tensor y = op_case.body(t, inputs);
    t.output("y", y);
    const Several grads = grad(sum(y * y), std::span<const Tensor>(floats));
    for (std::size_t i = 0; i < grads.size(); ++i) t.output("grad" + std::to_string(i), grads[i]);
  });
  return program_of(std::move(graph), decision, op_case.ranks);
}

SavedProgram small_program() {
  SavedProgram out;
  for (const bool dynamic : {false, true}) {
    const Decision decision = small_decision(dynamic);
    const Observation seen = [&] {
      const std::vector<std::int64_t> sizes{5, 3};
      Observation made = ObservationBuilder()
                             .tensor("counts", {2}, DType::I64)
                             .real("lr")
                             .integer("n", 3)
                             .tensor("x", sizes, DType::F64)
                             .build();
      made.scalars = {std::bit_cast<std::int64_t>(0.75)};
      return made;
    }();
    TraceSetup made = setup(decision, 2);
    made.observation = &seen;
    SavedProgram one = program_of(traced(made, small_body), decision, 2);
    if (out.entries.empty())
      out = std::move(one);
    else
      out.entries.push_back(std::move(one.entries[0]));
  }
  out.constraints = {"1 <= n"};
  return out;
}

SavedProgram tiny_program() {
  Graph graph;
  graph.name = "negate";
  const TensorMeta meta{DType::F32, {shapes::Expr::symbol({false, 0})}};
  graph.nodes = {Node{.op = Op::Input, .text = "x", .meta = meta},
                 Node{.op = Op::Neg, .inputs = {0}, .meta = meta}};
  graph.outputs = {{"y", 1}};
  graph.symbols = {{{false, 0}, "x.size(0)", 5}};
  return program_of(std::move(graph), DecisionBuilder().tensor("x", DType::F32, {Dim(5, 2)}).get());
}

OwnOps own_ops_in(const SavedProgram& program) {
  OwnOps out;
  for (const auto& [name, node] : own_ops_of(program)) out.known.push_back(*node->own);
  return out;
}

}  // namespace lockstep::worker::test
