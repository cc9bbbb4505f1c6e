// Sizes while tracing and on every call: the guards of an entry, and what the prover is asked most.
#include <chrono>

#include <benchmark/benchmark.h>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/guard_set.h>
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

/// A call with 32 tensors of two dims, and an entry that relies on ten relations of two of them
/// each: equal rows, multiples, order.
void HoldRelations(benchmark::State& state) {
  constexpr std::uint32_t kSymbols = 64, kRelations = 10;
  std::vector<Symbol> slots;
  std::vector<std::int64_t> values;
  for (std::uint32_t s = 0; s < kSymbols; ++s) {
    slots.push_back({false, s});
    values.push_back(s % 2 == 0 ? 384 : 768);
  }
  std::vector<Guard> guards;
  for (std::uint32_t g = 0; g < kRelations; ++g) {
    const Expr a = Expr::symbol(slots[6 * g]), b = Expr::symbol(slots[6 * g + 2]),
               c = Expr::symbol(slots[6 * g + 3]);
    guards.push_back({g % 3 == 0   ? equal(a, b)
                      : g % 3 == 1 ? equal(c, 2 * a)
                                   : less_equal(a + 1, c),
                      {"bench.cpp", 1}});
  }
  const GuardProgram program = GuardProgram::compile(guards, slots);
  if (!program.holds(values)) return state.SkipWithError("a guard does not hold");
  for (auto _ : state) {
    benchmark::DoNotOptimize(values.data());
    benchmark::DoNotOptimize(program.holds(values));
  }
}
BENCHMARK(HoldRelations);

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

/// A trace with many sizes: every guard asked, learnt from, the list made minimal and compiled, its
/// text in source names written. Five guards per symbol, of five kinds. Marked: every size must
/// vary.
void record_guards(benchmark::State& state, Constraint constraint) {
  const std::int64_t guards = state.range(0), symbols = guards / 5;
  std::size_t kept = 0;
  for (auto _ : state) {
    ShapeEnv env;
    std::vector<Expr> s;
    std::vector<Symbol> slots;
    for (std::int64_t i = 0; i < symbols; ++i) {
      s.push_back(env.backed("x" + std::to_string(i) + ".size(0)", 16 * (i % 50 + 2),
                             {2, Range::kMax}, constraint));
      slots.push_back(*s.back().as_symbol());
    }
    for (std::int64_t g = 0; g < guards; ++g) {
      const Expr& a = s[static_cast<std::size_t>(g % symbols)];
      const Expr& b = s[static_cast<std::size_t>((g * 7 + g / symbols + 1) % symbols)];
      const Predicate asked = g % 5 == 0   ? less(a * b, 1000000 + g)
                              : g % 5 == 1 ? equal(mod(a, 16), 0)
                              : g % 5 == 2 ? less_equal(a, b + g % 7)
                              : g % 5 == 3 ? not_equal(a * 3, b * 2 + 1)
                                           : greater(a + b, g % 13);
      benchmark::DoNotOptimize(env.evaluate(asked, {"bench.cpp", static_cast<std::uint32_t>(g)}));
    }
    GuardSet set{{}, env.guards()};
    for (const auto& record : env.symbols()) set.ranges[record.symbol] = record.declared;
    const std::vector<Guard> minimal = minimal_guards(set);
    const Namer names = env.source_namer();
    for (const Guard& guard : minimal) benchmark::DoNotOptimize(guard.predicate.text(names));
    benchmark::DoNotOptimize(GuardProgram::compile(minimal, slots));
    kept = minimal.size();
  }
  state.counters["kept"] = static_cast<double>(kept);
  state.counters["per_guard_us"] = benchmark::Counter(
      static_cast<double>(guards) / 1e6,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
void RecordGuards(benchmark::State& state) { record_guards(state, Constraint::None); }
BENCHMARK(RecordGuards)->Arg(500)->Arg(1000)->Arg(2000)->Arg(5000)->Unit(benchmark::kMillisecond);
void RecordGuardsOfMarked(benchmark::State& state) { record_guards(state, Constraint::Varies); }
BENCHMARK(RecordGuardsOfMarked)->Arg(500)->Arg(5000)->Unit(benchmark::kMillisecond);

/// Splits of a known total, as many as there are peers: one assert over all of them.
void AssertASum(benchmark::State& state) {
  for (auto _ : state) {
    ShapeEnv env;
    const Expr rows = env.backed("x.size(0)", 100, {2, 1 << 30});
    std::vector<Expr> splits;
    for (std::int64_t i = 0; i < state.range(0); ++i)
      splits.push_back(env.unbacked("counts.tolist()", {0, 1 << 30}, {"bench.cpp", 1}));
    env.check(equal(sum(splits), rows), {"bench.cpp", 2});
    if (env.deferred_asserts().size() != 1) return state.SkipWithError("no assert");
  }
}
BENCHMARK(AssertASum)->Arg(8)->Arg(1000)->Unit(benchmark::kMicrosecond);

/// An environment that knows a little of two sizes.
struct Known {
  Known() { benchmark::DoNotOptimize(env.evaluate(less(a, b), {"bench.cpp", 1})); }
  ShapeEnv env;
  Expr a = env.backed("x.size(0)", 12, {2, Range::kMax});
  Expr b = env.backed("y.size(0)", 30, {2, Range::kMax});
};

/// A branch that is proven: from a range, from a fact.
void DecideABranch(benchmark::State& state, bool by_fact) {
  Known known;
  const Predicate asked = by_fact ? less(known.a, known.b + 1) : greater(known.a, 1);
  for (auto _ : state) benchmark::DoNotOptimize(known.env.evaluate(asked, {"bench.cpp", 2}));
  if (known.env.guards().size() != 1) return state.SkipWithError("not proven");
}
BENCHMARK_CAPTURE(DecideABranch, by_range, false);
BENCHMARK_CAPTURE(DecideABranch, by_fact, true);

/// A branch that is open: it makes a guard, which is learnt from.
void MakeAGuard(benchmark::State& state) {
  for (auto _ : state) {
    Known known;
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(known.env.evaluate(less(known.a, 100), {"bench.cpp", 2}));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count());
    if (known.env.guards().size() != 2) return state.SkipWithError("no guard");
  }
}
BENCHMARK(MakeAGuard)->UseManualTime();

}  // namespace
}  // namespace lockstep::shapes

BENCHMARK_MAIN();
