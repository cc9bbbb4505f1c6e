// What compiled programs cost: kernels of usual shapes, and the overhead of a step.
#include <vector>

#include <benchmark/benchmark.h>

#include <lockstep/worker/autodiff/autodiff.h>
#include <lockstep/worker/codegen/codegen.h>
#include <lockstep/worker/execution/executable.h>
#include <lockstep/worker/language/selection_ops.h>
#include <lockstep/worker/language/tensor_ops.h>
#include <lockstep/worker/toolchain/host_toolchain.h>
#include <lockstep/worker/toolchain/shared_build.h>
#include <lockstep/worker/trace/tracer.h>

namespace {

using namespace lockstep::worker;  // NOLINT: a bench reads like a user's program
using lockstep::Bytes;
using lockstep::DType;
using lockstep::Result;
using lockstep::Status;

/// A group of one: nothing to send, nobody to settle with.
class Alone final : public lockstep::collectives::Communicator, public RunHost {
 public:
  [[nodiscard]] lockstep::Rank rank() const override { return {}; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string name() const override { return "alone"; }
  void start(lockstep::collectives::Round&) override {}
  [[nodiscard]] Result<void> start(const lockstep::collectives::Collective&) override { return {}; }
  using Communicator::run;
  [[nodiscard]] Result<void> run(const lockstep::collectives::Collective&) override { return {}; }
  [[nodiscard]] Result<bool> poll() override { return true; }
  [[nodiscard]] Result<void> wait() override { return {}; }
  [[nodiscard]] Result<void> settle(const std::optional<LocalFailure>&) override { return {}; }
};

const lockstep::SystemClock kClock;

/// `body` on one input x [rows, width], rows a symbol. `counted`: masks keep their counts.
void run(benchmark::State& state, std::int64_t rows, std::int64_t width,
         const std::function<Tensor(Tensor)>& body, bool counted = false) {
  Decision decision;
  SourceDecision x;
  x.spec = {"x", Kind::Tensor, DType::F32, 2};
  x.dims = {{true, 0, 0}, {false, 0, width}};
  decision.sources = {x};
  decision.symbols = {{"x.size(0)", false, 0, rows, false}};
  TraceSetup setup{"bench", decision};
  setup.peers_may_differ = counted;
  const auto graph =
      trace(setup, [&](Trace& trace) { trace.output("y", body(trace.tensor_input(0))); });
  if (!graph) return state.SkipWithError(graph.error().message.c_str());
  auto program = generate(*graph).value();
  auto toolchain = HostToolchain::open({}).value();
  std::vector<Bytes> units;
  for (int i = 0; i < program.unit_count(); ++i)
    units.push_back(build_unit(program, i, *toolchain, nullptr).value().object);
  const std::size_t steps = program.steps.size();
  auto executable = Executable::load(std::move(program), units, kClock).value();
  Inputs inputs{{"x", Array::zeros(DType::F32, {rows, width})}};
  Alone alone;
  for (auto _ : state) benchmark::DoNotOptimize(executable->run(inputs, alone, alone).has_value());
  state.counters["elements/s"] = benchmark::Counter(static_cast<double>(rows * width),
                                                    benchmark::Counter::kIsIterationInvariantRate);
  state.counters["steps"] = static_cast<double>(steps);
}

void elementwise_chain(benchmark::State& state) {
  run(state, 1000, 257, [](Tensor x) { return tanh(x * 2.0 + 1.0) * sigmoid(x); });
}
BENCHMARK(elementwise_chain);

void softmax_rows(benchmark::State& state) {
  run(state, 1000, 257, [](Tensor x) { return softmax(x, 1); });
}
BENCHMARK(softmax_rows);

void sum_over_rows(benchmark::State& state) {
  run(state, 1000, 257, [](Tensor x) { return sum(x * x, {0}); });
}
BENCHMARK(sum_over_rows);

/// A loss over the rows that a mask chooses, one of range(0), and its gradient.
void masked_loss(benchmark::State& state, bool counted) {
  const std::int64_t every = state.range(0);
  const auto body = [&](Tensor x) {
    const Tensor rows = x[iota({x.size(0)}, 0) % every == 0];
    const Tensor loss = sum(log1p(rows * rows)) + 0.5 * mean(exp(rows));
    return grad(loss, {x})[0];
  };
  run(state, 20000, 16, body, counted);
}
BENCHMARK_CAPTURE(masked_loss, where, false)->Arg(1)->Arg(2)->Arg(10)->Arg(100);
BENCHMARK_CAPTURE(masked_loss, counted, true)->Arg(1)->Arg(2)->Arg(10)->Arg(100);

void square_product(benchmark::State& state) {
  run(state, 1000, 64, [](Tensor x) { return matmul(matmul(x, transpose(x, 0, 1)), x); });
}
BENCHMARK(square_product);

/// Fifty steps on next to nothing: time per step is the runtime's own.
void step_overhead(benchmark::State& state) {
  run(state, 1, 8, [](Tensor x) {
    for (int i = 0; i < 50; ++i) x = x + sum(x, {1}, Keep::Keep);
    return x;
  });
}
BENCHMARK(step_overhead);

}  // namespace

BENCHMARK_MAIN();
