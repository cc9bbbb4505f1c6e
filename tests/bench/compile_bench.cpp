// What compiling costs a job: the training step of examples/moe_text, once. One JSON line on rank
// 0, all but the wall time summed over ranks: CPU seconds of compiler children, of tracing, and of
// the ranks themselves (which includes waiting for each other). Run with an empty
// LOCKSTEP_CACHE_DIR for the cold figure, again for the warm one.
//
// usage: LOCKSTEP_CACHE_DIR=DIR scripts/mpirun -n RANKS compile_bench
#include "../../examples/moe_text/model.h"
#include <fmt/format.h>
#include <mpi.h>
#include <sys/resource.h>

namespace {

using namespace moe_text;

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

double cpu_seconds(int whose) {
  rusage usage{};
  getrusage(whose, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Tensor zeros(DType dtype, std::vector<std::int64_t> sizes) {
  return Array::zeros(dtype, std::move(sizes));
}

Parameters parameters(const Shape& s, int ranks) {
  const auto f32 = [](std::vector<std::int64_t> sizes) { return zeros(DType::F32, sizes); };
  Parameters p;
  p.embed = f32({s.vocabulary, s.width});
  p.position = f32({s.positions, s.width});
  for (Tensor* norm : {&p.norm_attention, &p.norm_experts, &p.norm_head}) *norm = f32({s.width});
  for (Tensor* square : {&p.query, &p.key, &p.value, &p.out}) *square = f32({s.width, s.width});
  p.router = f32({s.width, s.experts});
  p.head = f32({s.width, 256});
  p.expert_in = f32({s.experts / ranks, s.width, s.hidden});
  p.expert_out = f32({s.experts / ranks, s.hidden, s.width});
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv, {.decision = {}, .settings = {}, .summary = false});
  if (!job) return Job::report(job.error());
  const int ranks = (*job)->size(), rank = (*job)->rank();
  return (*job)->run([&]() -> lockstep::Result<void> {
    double tracing = 0;
    auto step = (*job)->frame<StepInput, StepOutput>("train_step", [&](StepInput in) {
      const double begin = cpu_seconds(RUSAGE_SELF);
      auto out = moe_text::step(in, ranks);
      tracing += cpu_seconds(RUSAGE_SELF) - begin;
      return out;
    });
    const Shape shape;
    const std::int64_t lines = 4 + rank % 3, length = 16, rows = lines * length;
    StepInput in;
    for (Parameters* p : {&in.parameters, &in.first_moment, &in.second_moment})
      *p = parameters(shape, ranks);
    in.batch = {zeros(DType::I64, {lines, length}), zeros(DType::I64, {rows}),
                zeros(DType::I64, {rows})};
    in.batch.tokens.mark(0, Mark::Dynamic);
    in.batch.rows.mark(0, Mark::Dynamic);
    in.batch.targets.mark(0, Mark::Dynamic);
    in.rate = 1e-3;
    const double own = cpu_seconds(RUSAGE_SELF), children = cpu_seconds(RUSAGE_CHILDREN);
    const double begin = MPI_Wtime();
    const auto out = step(in);
    if (!out) return out.error();
    double mine[3] = {cpu_seconds(RUSAGE_CHILDREN) - children, tracing,
                      cpu_seconds(RUSAGE_SELF) - own};
    double all[3] = {}, wall = MPI_Wtime() - begin, longest = 0;
    MPI_Reduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wall, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
      fmt::print(
          "{{\"ranks\": {}, \"compiler_cpu_s\": {:.3f}, \"tracing_cpu_s\": {:.3f}, "
          "\"ranks_cpu_s\": {:.3f}, \"wall_s\": {:.3f}}}\n",
          ranks, all[0], all[1], all[2], longest);
    return {};
  });
}
