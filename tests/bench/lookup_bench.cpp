// What a call costs this rank: before its vote goes out the look-up of every entry that is not
// superseded and the making of the vote, for 32 or 1,000 tensor inputs of 4 dims; on a miss the
// steps of the exchange, and of the state that a commit leaves behind.
#include <benchmark/benchmark.h>

#include <lockstep/worker/agree/agreement/call_machine.h>
#include <lockstep/worker/agree/agreement/code_cache.h>

namespace lockstep::worker {
namespace {

Observation batch(std::int64_t rows, std::int64_t columns, std::int64_t tensors) {
  std::vector<SourceSpec> specs;
  Observation out;
  for (std::int64_t i = 0; i < tensors; ++i) {
    specs.push_back({"batch.x" + std::to_string(10000 + i), Kind::Tensor, DType::F32, 4});
    out.values.insert(out.values.end(), {rows, 16, columns, 64});
  }
  out.list = std::make_shared<SourceList>(std::move(specs));
  return out;
}

JointObservation joined(const Observation& a, const Observation& b) {
  return *read_list_payload(join_columns(list_payload(a), list_payload(b)), a.list, nullptr);
}

/// A frame with `entries` entries, the last of which is dynamic in two dims and has two guards.
CodeCache frame_with(std::int64_t entries, std::int64_t tensors) {
  CodeCache frame("train_step");
  const auto add = [&frame](const Observation& a, const Observation& b,
                            std::vector<shapes::Guard> guards) {
    const Decision decision = decide(joined(a, b), {});
    frame.commit(Entry::make(decision, decision, a.list, std::move(guards), {}), {}, 0);
  };
  for (std::int64_t i = 1; i < entries; ++i)
    add(batch(4, 1000 + i, tensors), batch(4, 1000 + i, tensors), {});
  const auto symbol = [](std::uint32_t serial) {
    return shapes::Expr::symbol(shapes::Symbol{false, serial});
  };
  add(batch(4, 100, tensors), batch(5, 101, tensors),
      {{shapes::equal(symbol(0), symbol(2)), {"train.cpp", 1}},
       {shapes::less(symbol(1), 4096), {"train.cpp", 2}}});
  return frame;
}

void LookupAndVote(benchmark::State& state) {
  const CodeCache frame = frame_with(state.range(0), state.range(1));
  const Observation seen = batch(7, 300, state.range(1));
  RoundKey key;
  key.group = "world";
  key.frame = "train_step";
  for (auto _ : state) {
    ++key.round;
    const std::uint64_t fits = frame.lookup(seen);
    const auto vote =
        collectives::Vote::of(fits, key.hash(), frame.digest() ^ seen.list->digest().low, 0);
    benchmark::DoNotOptimize(vote);
  }
  if (frame.lookup(seen) == 0) state.SkipWithError("the dynamic entry does not fit");
}
BENCHMARK(LookupAndVote)->Args({1, 32})->Args({8, 32})->Args({1, 1000});

/// The part of that which does not look at values: the digests are kept, nothing is hashed but the
/// round key, so it takes as long for 1,000 tensors as for 32.
void VoteHeader(benchmark::State& state) {
  const CodeCache frame = frame_with(1, state.range(0));
  const Observation seen = batch(7, 300, state.range(0));
  RoundKey key;
  key.group = "world";
  key.frame = "train_step";
  for (auto _ : state) {
    ++key.round;
    benchmark::DoNotOptimize(
        collectives::Vote::of(1, key.hash(), frame.digest() ^ seen.list->digest().low, 0));
  }
}
BENCHMARK(VoteHeader)->Arg(32)->Arg(1000);

/// One join of the tree on a miss: two vectors of `range` tensors of 4 dims each.
void JoinPayloads(benchmark::State& state) {
  const Bytes lower = list_payload(batch(7, 300, state.range(0)));
  const Bytes higher = list_payload(batch(8, 301, state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(join_columns(lower, higher));
  state.counters["payload_bytes"] = static_cast<double>(lower.size());
}
BENCHMARK(JoinPayloads)->Arg(32)->Arg(1000);

/// A rank's own part: its vector, and what it reads from the joined one.
void ReadJoined(benchmark::State& state) {
  const Observation a = batch(7, 300, state.range(0));
  const Bytes all = join_columns(list_payload(a), list_payload(batch(8, 301, state.range(0))));
  for (auto _ : state) {
    benchmark::DoNotOptimize(list_payload(a));
    benchmark::DoNotOptimize(read_list_payload(all, a.list, nullptr));
  }
}
BENCHMARK(ReadJoined)->Arg(32)->Arg(1000);

/// The state after a commit, with its digest: `range` sources are stored, one has changed.
void CommitState(benchmark::State& state) {
  const Observation a = batch(7, 300, state.range(0));
  Observation b = a;
  b.values[0] = 8;
  CodeCache frame("train_step");
  frame.adopt(joined_state(joined(a, a), {}, true));
  const JointObservation one = joined(a, b);
  const FrameState before = frame.state;
  for (auto _ : state) {
    frame.adopt(joined_state(one, frame.state, true));
    state.PauseTiming();
    frame.adopt(before);
    state.ResumeTiming();
  }
}
BENCHMARK(CommitState)->Arg(32)->Arg(1000);

}  // namespace
}  // namespace lockstep::worker

BENCHMARK_MAIN();
