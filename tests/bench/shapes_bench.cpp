// Sizes while tracing and on every call: the guards of an entry, and what the prover is asked most.
#include <benchmark/benchmark.h>

#include <lockstep/shapes/guard.h>
#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

/// Guards as routed batches leave them: sums, products and divisions of the first symbols.
void HoldGuards(benchmark::State& state) {
  constexpr std::uint32_t kSymbols = 8;
  std::vector<Symbol> slots;
  std::vector<std::int64_t> values;
  for (std::uint32_t s = 0; s < kSymbols; ++s) {
    slots.push_back({false, s});
    values.push_back(16 * (s + 1));
  }
  std::vector<Guard> guards;
  for (std::uint32_t g = 0; g < static_cast<std::uint32_t>(state.range(0)); ++g) {
    const Expr a = Expr::symbol(slots[g % kSymbols]);
    const Expr b = Expr::symbol(slots[(g + 1) % kSymbols]);
    guards.push_back({g % 2 == 0 ? less(a * b, 1000000) : equal(mod(a, 16), 0), {"bench.cpp", 1}});
  }
  const GuardProgram program = GuardProgram::compile(guards, slots);
  if (!program.holds(values)) return state.SkipWithError("a guard does not hold");
  for (auto _ : state) benchmark::DoNotOptimize(program.holds(values));
}
BENCHMARK(HoldGuards)->Arg(2)->Arg(16);

/// u0 + u1 <= rows, asked of an environment that knows u0 + u1 == rows.
void ProveFromASum(benchmark::State& state) {
  ShapeEnv env;
  const Expr rows = env.backed("x.size(0)", 100, {2, 1 << 30});
  Expr sum;
  for (std::int64_t i = 0; i < state.range(0); ++i)
    sum = sum + env.unbacked("counts.tolist()", {0, 1 << 30}, {"bench.cpp", 1});
  env.check(equal(sum, rows), {"bench.cpp", 2});
  const Predicate asked = less_equal(sum * 64, rows * 64);
  if (!env.statically_true(asked)) return state.SkipWithError("not proven");
  for (auto _ : state) benchmark::DoNotOptimize(env.prove(asked));
}
BENCHMARK(ProveFromASum)->Arg(2)->Arg(8);

}  // namespace
}  // namespace lockstep::shapes

BENCHMARK_MAIN();
