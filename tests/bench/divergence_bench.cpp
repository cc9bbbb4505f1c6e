// How long it takes until all ranks hold the report on graphs that differ: from the moment that the
// last rank has its graph (traced, ready to be compared) to the error in the slowest rank's hand.
// 10,000 nodes, one of them with another constant on the last rank; another node every time.
//
// usage: scripts/mpirun -n RANKS divergence_bench [--benchmark_out=FILE ...]
#include <algorithm>
#include <chrono>
#include <random>
#include <string_view>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace {

using namespace lockstep::worker;  // NOLINT: a bench reads like a user's program
using lockstep::Result;
using lockstep::collectives::Communicator;

constexpr int kNodes = 10'000;
// Seconds on a clock that the processes of a host share.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A chain of additions: every second node is the constant, node `odd_one` with another value on
/// the last rank.
Result<Graph> chain(const Decision& decision, int odd_one, double value) {
  const TraceSetup setup{.frame = "step", .decision = decision};
  return trace(setup, [&](Trace& t) {
    Tensor x = t.tensor_input(0);
    for (int i = 0; i < kNodes / 2; ++i) x = x * (i == odd_one ? value : 1.0 + i);
    t.output("x", x);
  });
}

class Steps final : public CallSteps {
 public:
  Steps(int odd_one, double value) : odd_one_(odd_one), value_(value) {}
  Result<TraceReport> trace(const Decision& decision) override {
    auto graph = chain(decision, odd_one_, value_);
    graph_ = std::move(graph.value());
    ready = now();
    TraceReport report;
    report.graph = graph_.fingerprint();
    report.prefixes = prints_of(graph_).prefixes;
    report.skeleton = prints_of(graph_).skeleton;
    return report;
  }
  std::string explain(std::size_t node) override {
    return graph_.node_text(static_cast<NodeId>(node));
  }
  std::optional<lockstep::Status> compile() override { return std::nullopt; }
  [[nodiscard]] std::size_t nodes() const { return graph_.nodes.size(); }
  double ready = 0;

 private:
  int odd_one_;
  double value_;
  Graph graph_;
};

double latest(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

void named(benchmark::State& state, Communicator& group) {
  std::mt19937 random(1);
  CallDriver driver(group, {});
  RoundKey key;
  std::size_t nodes = 0;
  for (auto _ : state) {
    const int odd_one = static_cast<int>(random() % (kNodes / 2));
    const bool last = group.rank().value == group.size() - 1;
    CodeCache frame("step");
    Steps steps(odd_one, last ? -0.5 : 0.5);
    ++key.round;
    const auto seen = ObservationBuilder().tensor("x", {64, 64}).build();
    const CallOutcome outcome = driver.call(key, frame, seen, {}, steps);
    const double done = now();
    if (!outcome.error || outcome.error->code != lockstep::Code::GraphDivergence ||
        outcome.error->message.find("the only difference is a constant") == std::string::npos)
      std::abort();
    nodes = steps.nodes();
    const double arrival = latest(steps.ready);
    state.SetIterationTime(latest(done) - arrival);
  }
  state.counters["nodes"] = static_cast<double>(nodes);
  state.counters["ranks"] = group.size();
}

class Silent final : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    auto group = lockstep::collectives::mpi_communicator(nullptr, {}).value();
    // Only one rank writes the results.
    const auto writes = [](std::string_view flag) { return flag.starts_with("--benchmark_out"); };
    if (group->rank().value > 0)
      argc = static_cast<int>(std::remove_if(argv + 1, argv + argc, writes) - argv);
    benchmark::Initialize(&argc, argv);
    // A fixed number of iterations: all ranks run the same.
    benchmark::RegisterBenchmark("divergence_named",
                                 [&](benchmark::State& state) { named(state, *group); })
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(21)
        ->Unit(benchmark::kMillisecond);
    Silent silent;
    if (group->rank().value == 0)
      benchmark::RunSpecifiedBenchmarks();
    else
      benchmark::RunSpecifiedBenchmarks(&silent);
  }
  MPI_Finalize();
}
