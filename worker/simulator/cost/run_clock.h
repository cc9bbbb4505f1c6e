// The virtual time of a dry run. The run and its group report the events of each call; the clock
// computes how long each rank waited, agreed, compiled and ran its step. The same scenario and seed
// give the same nanoseconds, however the run is carried out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/cost/cost_model.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>
#include <lockstep/worker/simulator/cost/timing.h>

namespace lockstep::worker::simulator {

/// Work of a rank since its last round. If graphs differ between ranks, the largest numbers count.
struct LocalWork {
  std::size_t sources = 0, symbols = 0;  // counts in the decision that was traced
  bool built = false;

  void join(const LocalWork& other) {
    sources = std::max(sources, other.sources);
    symbols = std::max(symbols, other.symbols);
    built = built || other.built;
  }
};

/// Used by one thread. A call is begin(), then its rounds and builds in order, then end().
class RunClock {
 public:
  /// The model outlives the clock. Keeps about `most_spans` spans at most, those of at most 512
  /// evenly spaced ranks.
  RunClock(const CostModel& model, int size, std::size_t calls, std::size_t most_spans);

  /// Starts a call: these ranks arrive, each delayed by its skew.
  void begin(const RankSet& present, const std::string& frame);

  /// Advance all ranks by a round.
  void vote();
  void tree_join(const TreeBytes& bytes);
  void broadcast(Rank root, std::uint64_t bytes);
  /// Reports the work of any number of ranks before a round or the end. Its time passes once, on
  /// all ranks.
  void work(const LocalWork& work);
  /// Reports that ranks are absent: the others wait until the deadline.
  void time_out_all();

  /// Writes the number of elements of every rank's tensors, by rank.
  using Elements = std::function<void(std::span<std::int64_t>)>;
  /// Ends the call. `steps`: true if the step runs, since the call did not fail. `elements` is
  /// called only if the model needs it.
  void end(bool steps, const Elements& elements);

  /// Returns the result. The clock cannot be used afterwards.
  [[nodiscard]] Timing take();

 private:
  template <class Move>
  void round(SpanKind kind, Move move);
  [[nodiscard]] std::int64_t last_arrival();
  void gather();
  void build();
  void step(const Elements& elements);
  void hold(std::int32_t rank, std::int64_t bytes);
  template <class Of>
  void pass(SpanKind kind, std::vector<std::int64_t>& sums, Of of);
  void keep(SpanKind kind, std::int32_t rank, std::int64_t begin, std::int64_t end);

  const CostModel& model_;
  std::int32_t size_;
  RankClocks clocks_;
  std::int64_t span_every_;  // spans are kept of every n-th rank; 0: none
  Timing timing_;
  RankSet present_;
  std::string frame_;
  CallTiming call_;
  std::vector<std::int64_t> before_, waited_;  // by rank: time before the round, wait in the call
  LocalWork work_;                             // work in this call
  bool first_round_ = true;
};

}  // namespace lockstep::worker::simulator
