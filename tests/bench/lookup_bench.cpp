// What a call costs this rank: before its vote goes out the look-up of every entry that is not
// superseded and the making of the vote, for 32 tensor inputs of 4 dims; on a miss the joins.
#include <benchmark/benchmark.h>

#include <lockstep/worker/call_machine.h>
#include <lockstep/worker/code_cache.h>

namespace lockstep::worker {
namespace {

constexpr int kTensors = 32;

Observation batch(std::int64_t rows, std::int64_t columns) {
  std::vector<SourceSpec> specs;
  Observation out;
  for (int i = 0; i < kTensors; ++i) {
    specs.push_back({"batch.x" + std::to_string(10 + i), Kind::Tensor, DType::F32, 4});
    out.values.insert(out.values.end(), {rows, 16, columns, 64});
  }
  out.list = std::make_shared<SourceList>(std::move(specs));
  return out;
}

/// A frame with `entries` entries, the last of which is dynamic in two dims and has two guards.
Frame frame_with(int entries) {
  Frame frame("train_step");
  const auto add = [&frame](const Observation& a, const Observation& b,
                            std::vector<shapes::Guard> guards) {
    const JointObservation joint =
        join(observe({0}, a, {}, true, {}), observe({1}, b, {}, true, {}));
    const Decision decision = decide(joint, {});
    frame.commit(Entry::make(decision, decision, a.list, std::move(guards), {}), {}, 0);
  };
  for (int i = 1; i < entries; ++i) add(batch(4, 1000 + i), batch(4, 1000 + i), {});
  const auto symbol = [](std::uint32_t serial) {
    return shapes::Expr::symbol(shapes::Symbol{false, serial});
  };
  add(batch(4, 100), batch(5, 101),
      {{shapes::equal(symbol(0), symbol(2)), {"train.cpp", 1}},
       {shapes::less(symbol(1), 4096), {"train.cpp", 2}}});
  return frame;
}

void LookupAndVote(benchmark::State& state) {
  const Frame frame = frame_with(static_cast<int>(state.range(0)));
  const Observation seen = batch(7, 300);
  RoundKey key;
  key.group = "world";
  key.frame = "train_step";
  for (auto _ : state) {
    ++key.call;
    const std::uint64_t fits = frame.lookup(seen);
    const auto vote =
        collectives::Vote::of(fits, key.hash(), frame.digest() ^ seen.list->digest().low, 0);
    benchmark::DoNotOptimize(vote);
  }
  if (frame.lookup(seen) == 0) state.SkipWithError("the dynamic entry does not fit");
}
BENCHMARK(LookupAndVote)->Arg(1)->Arg(8);

/// One join of the tree on a miss: two payloads of `range` tensors of 4 dims each.
void JoinPayloads(benchmark::State& state) {
  std::vector<SourceSpec> specs;
  Observation seen;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    specs.push_back(
        {"model.layers.batch.x" + std::to_string(10000 + i), Kind::Tensor, DType::F32, 4});
    seen.values.insert(seen.values.end(), {7, 16, 300, 64});
  }
  seen.list = std::make_shared<SourceList>(std::move(specs));
  const Bytes lower = encode(observe({0}, seen, {}, true, {}));
  const Bytes higher = encode(observe({1}, seen, {}, true, {}));
  for (auto _ : state) benchmark::DoNotOptimize(join_payloads(lower, higher));
  state.counters["payload_bytes"] = static_cast<double>(lower.size());
}
BENCHMARK(JoinPayloads)->Arg(32)->Arg(1000);

}  // namespace
}  // namespace lockstep::worker

BENCHMARK_MAIN();
