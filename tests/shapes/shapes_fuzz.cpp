// Random expressions and traces against exhaustive search, as many as asked for. Run i is a
// function of seed + i alone, so a fault comes back with --seed N --runs 1. usage: shapes_fuzz
// [--runs N] [--seed S]
#include <cstdio>

#include "random_trace.h"
#include <CLI/CLI.hpp>

using namespace lockstep::shapes::testing;

int main(int argc, char** argv) {
  constexpr std::uint64_t kTraceEvery = 16;
  std::uint64_t runs = 1000, seed = 1;
  CLI::App app{"Random expressions and traces against exhaustive search"};
  app.add_option("--runs", runs, "how many random expressions; every 16th run is a trace too");
  app.add_option("--seed", seed, "the first run's seed");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Tally tally;
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    auto fault = fault_of_expression(i, tally);
    if (!fault && i % kTraceEvery == 0) fault = fault_of_trace(i, tally);
    if (fault) {
      std::fprintf(stderr, "shapes_fuzz: seed %llu: %s\n", static_cast<unsigned long long>(i),
                   fault->c_str());
      return 1;
    }
  }
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "seeds %llu to %llu: %llu expressions, %llu values; of the queries %llu proven, %llu "
      "unknown; one answer fits every point for %llu of %llu unknown ones over small ranges\n",
      number(seed), number(seed + runs - 1), number(tally.expressions), number(tally.values),
      number(tally.proven), number(tally.open), number(tally.missed),
      number(tally.missed + tally.undecided));
  return 0;
}
