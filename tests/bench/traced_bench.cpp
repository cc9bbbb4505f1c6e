// What tracing and compiling a data-dependent exchange costs when it runs: counts first, then rows,
// whose number no rank knows before. Floor: MPI_Alltoall of the counts and MPI_Alltoallv of the
// rows by hand. Ours, three ways: the compiled program with its votes on asserts left out, the same
// with them, and a whole call of a job's frame (look-up, vote, program, fresh output).
//
// usage: scripts/mpirun -n RANKS traced_bench [--batches N] [--out FILE]
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exchange_by_hand.h"
#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/compile/toolchain/host_toolchain.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/job.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace {

using namespace lockstep::worker;  // NOLINT: a bench reads like a user's program
using lockstep::DType;
using lockstep::Result;
using lockstep::bench::ExchangeByHand;
using lockstep::bench::Pair;
using lockstep::collectives::Communicator;

constexpr std::int64_t kWidth = 64;
const lockstep::SystemClock kClock;

struct Routed {
  Tensor x, counts;  // [rows, 64], i64 [ranks]: rows for each rank
  template <class V>
  void fields(V& v) {
    v("x", x), v("counts", counts);
  }
};

struct Reduced {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

struct Arrived {
  Tensor y;
  template <class V>
  void fields(V& v) {
    v("y", y);
  }
};

Tensor route(const Tensor& x, const Tensor& counts) {
  const Sizes to = tolist(counts, Values::NonNegative);
  const Sizes from = tolist(all_to_all_single(counts), Values::NonNegative);
  return all_to_all_single(x, from, to);
}

/// Status rounds over the group, or none: what the program costs without its votes.
class Votes final : public RunHost {
 public:
  Votes(Communicator& group, bool cast) : driver_(group, {}), cast_(cast) {}
  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    if (!cast_) return {};
    ++key_.round;
    RankStatus rank_status;
    if (mine) rank_status.local_error = mine->status;
    return driver_.status_round(key_, rank_status);
  }

 private:
  CallDriver driver_;
  RoundKey key_;
  bool cast_;
};

std::unique_ptr<Executable> compiled(int ranks, std::int64_t rows) {
  Decision decision;
  SourceDecision counts, x;
  counts.spec = {"counts", Kind::Tensor, DType::I64, 1};
  counts.dims = {{false, 0, ranks}};
  x.spec = {"x", Kind::Tensor, DType::F32, 2};
  x.dims = {{true, 0, 0}, {false, 0, kWidth}};
  decision.sources = {counts, x};
  decision.symbols = {{"x.size(0)", false, 0, rows, false}};
  const TraceSetup setup{.frame = "route", .decision = decision, .group_size = ranks};
  auto graph = trace(setup, [](Trace& trace) {
    trace.output("y", route(trace.tensor_input(1), trace.tensor_input(0)));
  });
  auto program = generate(graph.value()).value();
  auto toolchain = HostToolchain::open({}).value();
  std::vector<lockstep::Bytes> units;
  for (const std::string& unit : program.units) units.push_back(toolchain->build(unit).value());
  return Executable::load(std::move(program), units, kClock).value();
}

void add_pairs(std::vector<Pair>& pairs, Communicator& group, CompiledFrame<Routed, Arrived> frame,
               std::int64_t bytes, int calls) {
  const int ranks = group.size();
  const std::int64_t rows = bytes / 4 / kWidth;
  const auto floor = [hand = std::make_shared<ExchangeByHand>(ranks, rows, kWidth)] { (*hand)(); };
  const std::vector<double> each(static_cast<std::size_t>(ranks), static_cast<double>(rows));
  const Routed in{Array::zeros(DType::F32, {ranks * rows, kWidth}),
                  Array::of(DType::I64, {ranks}, each)};
  const auto program = [&](bool cast) {
    return [executable = std::shared_ptr<Executable>(compiled(ranks, ranks * rows)), &group,
            host = std::make_shared<Votes>(group, cast),
            inputs = Inputs{{"x", in.x.array()}, {"counts", in.counts.array()}}] {
      if (!executable->run(inputs, group, *host)) std::abort();
    };
  };
  const auto call = [f = std::make_shared<CompiledFrame<Routed, Arrived>>(std::move(frame)), in] {
    if (!(*f)(in)) std::abort();
  };
  const std::string name = fmt::format("traced_all_to_all/{}KiB", bytes / 1024);
  const double target = bytes >= 4 << 20 ? 1.1 : 1.25;
  pairs.push_back({name + "/program", calls, floor, program(false), target});
  pairs.push_back({name + "/program+votes", calls, floor, program(true), 0});
  pairs.push_back({name + "/frame_call", calls, floor, call, 0});
}

/// Reduces x, whose rows are a symbol: over the frame's group, where the vote of the call tells
/// that all ranks have as many, and over a group of the same ranks, which compares them in each
/// run.
Pair uniform_pair(Job& job, const Group& group) {
  const auto call = [&job](const std::string& name, const Group& over) {
    auto frame = std::make_shared<CompiledFrame<Reduced, Arrived>>(
        job.frame<Reduced, Arrived>(name, [over](Reduced in) {
          return Arrived{all_reduce(in.x, lockstep::collectives::Reduce::Sum, over)};
        }));
    const auto run = [frame](std::int64_t rows) {
      if (!(*frame)({Array::zeros(DType::F32, {rows, kWidth})})) std::abort();
    };
    run(2);
    run(3);
    return [run] { run(4); };
  };
  return {"uniform_all_reduce/1KiB/group", 500, call("frames", {}), call("groups", group), 0};
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 21;
  std::string out;
  CLI::App app("A traced all_to_all_single with its counts against MPI by hand");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  auto job = Job::init(&argc, &argv, {.decision = {}, .settings = {}, .summary = false});
  if (!job) return Job::report(job.error());
  return (*job)->run([&]() -> Result<void> {
    const auto group = lockstep::collectives::mpi_communicator(nullptr, {}).value();
    const auto frame = [&](const char* name) {
      return (*job)->frame<Routed, Arrived>(
          name, [](Routed in) { return Arrived{route(in.x, in.counts)}; });
    };
    std::vector<Pair> pairs;
    add_pairs(pairs, *group, frame("small"), 64 << 10, group->size() > 2 ? 20 : 200);
    add_pairs(pairs, *group, frame("large"), 4 << 20, 4);
    auto same = (*job)->group("all", lockstep::RankSet::all(group->size()));
    if (!same) return same.error();
    pairs.push_back(uniform_pair(**job, *same));
    if (!lockstep::bench::run_pairs("traced_bench", pairs, batches, out))
      return lockstep::Status{lockstep::Code::Environment, "cannot write " + out, {}, {}};
    return {};
  });
}
