#include <exception>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/compile/opcheck/single_rank.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {
namespace {

class SingleRankHost final : public RunHost {
 public:
  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    if (mine) return mine->status;
    return {};
  }
};

template <class Run>
Result<std::vector<Array>> on_one_rank(const std::vector<Array>& arrays, const Run& run) {
  Inputs inputs;
  for (std::size_t k = 0; k < arrays.size(); ++k) inputs[numbered_input(k)] = arrays[k];
  inputs["job.rank"] = Array::zeros(DType::I64, {});
  auto ranks = collectives::fake_communicator(Rank{0}, 1);
  if (!ranks) return ranks.error();
  SingleRankHost host;
  try {
    return run(inputs, **ranks, host);
  } catch (const std::exception& error) {  // out of memory
    return environment_error(error.what());
  }
}

}  // namespace

std::string numbered_input(std::size_t k) { return "x" + std::to_string(k); }

Decision fixed_sizes(const std::vector<Array>& inputs) {
  Decision decision;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const auto& sizes = inputs[k].sizes();
    SourceDecision source;
    source.spec = {numbered_input(k), Kind::Tensor, inputs[k].dtype(),
                   static_cast<std::uint32_t>(sizes.size())};
    for (const std::int64_t size : sizes) source.dims.push_back({.value = size});
    decision.sources.push_back(std::move(source));
  }
  return decision;
}

Result<Graph> trace_on_one_rank(const std::string& name, const Decision& decision,
                                const TracedFunction& f) {
  const TraceSetup setup{.frame = name, .decision = decision};
  return trace(setup, [&](Trace& trace) {
    std::vector<Tensor> inputs;
    for (std::size_t k = 0; k < decision.sources.size(); ++k)
      inputs.push_back(trace.tensor_input(k));
    const std::vector<Tensor> outputs = f(inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k)
      trace.output("y" + std::to_string(k), outputs[k]);
  });
}

Result<std::vector<Array>> interpret_on_one_rank(const Graph& graph,
                                                 const std::vector<Array>& inputs) {
  return on_one_rank(inputs, [&](const Inputs& named, auto& ranks, RunHost& host) {
    return interpret(graph, named, ranks, host);
  });
}

Result<std::vector<Array>> run_on_one_rank(Executable& program, const std::vector<Array>& inputs) {
  return on_one_rank(inputs, [&](const Inputs& named, auto& ranks, RunHost& host) {
    return program.run(named, ranks, host);
  });
}

}  // namespace lockstep::worker
