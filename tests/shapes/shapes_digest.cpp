// One digest of what random programs make of sizes: guards, asserts, replacements, simplified
// expressions, answers. It must not depend on where memory lies or on the compiler; --shuffle moves
// every allocation.
// usage: shapes_digest [--runs N] [--seed S] [--shuffle K]
#include <cstdio>

#include "random_trace.h"
#include "shuffled_allocation.h"
#include <CLI/CLI.hpp>

#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::shapes::testing {
namespace {

void add_run(FingerprintBuilder& digest, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RandomTrace trace(random);
  for (int i = 0; i < 6; ++i) {
    const Predicate p = random_small_predicate(random);
    digest.add(p.text());
    digest.add(std::int64_t{trace.say(p, i % 2 == 0)});
  }
  for (const auto& guard : trace.env.guards()) digest.add(guard.predicate.text());
  for (const auto& deferred : trace.env.deferred_asserts()) digest.add(deferred.predicate.text());
  for (const auto& [symbol, by] : trace.env.replacements()) digest.add(symbol.name() + by.text());
  for (int i = 0; i < 6; ++i) {
    const Predicate p = random_small_predicate(random);
    const auto answer = trace.env.prove(p);
    digest.add(std::int64_t{answer ? *answer : 2});
    try {
      digest.add(trace.env.simplify(p.expr).text());
    } catch (const OverflowError&) {
      digest.add("overflow");
    }
  }
}

}  // namespace
}  // namespace lockstep::shapes::testing

int main(int argc, char** argv) {
  std::uint64_t runs = 3000, seed = 1, moved = 0;
  CLI::App app{"Digest of what random programs make of sizes"};
  app.add_option("--runs", runs);
  app.add_option("--seed", seed, "the first run's seed");
  app.add_option("--shuffle", moved, "moves allocations; 0: none");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  shuffle_allocations(moved);
  lockstep::shapes::FingerprintBuilder digest;
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    lockstep::shapes::testing::add_run(digest, i);
  }
  std::printf("%s\n", digest.finish().text().c_str());
  return 0;
}
