// The virtual time of a dry run: told by the run and its group what happens in each call, it says
// what each rank waited for, agreed on, compiled and ran. Same scenario and seed, same nanoseconds,
// in whatever manner the run is carried out.
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

/// What a rank did since its last round. Of ranks whose graphs differ the larger counts.
struct LocalWork {
  std::size_t sources = 0, symbols = 0;  // of the decision that it traced
  bool built = false;

  void join(const LocalWork& other) {
    sources = std::max(sources, other.sources);
    symbols = std::max(symbols, other.symbols);
    built = built || other.built;
  }
};

/// One thread. A call is begin(), then its rounds and builds in order, then end().
class RunClock {
 public:
  /// The model outlives the clock. Keeps at most `most_spans` spans: of all ranks where they fit,
  /// else of ranks spread evenly.
  RunClock(const CostModel& model, int size, std::size_t calls, std::size_t most_spans);

  /// These ranks come to the call, each as late as its skew says.
  void begin(const RankSet& present, const std::string& frame);

  /// Rounds of all ranks.
  void vote();
  void tree_join(const TreeBytes& bytes);
  void broadcast(Rank root, std::uint64_t bytes);
  /// Said by any number of ranks before a round or the end, it passes once, on all of them.
  void work(const LocalWork& work);
  /// Ranks are absent: the others wait until the deadline.
  void time_out_all();

  /// Puts the elements of every rank's tensors, rank by rank.
  using Elements = std::function<void(std::span<std::int64_t>)>;
  /// The step runs, unless the call failed. `elements` is asked only where the model needs it.
  void end(bool steps, const Elements& elements);

  /// What was told. The clock is done.
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
  std::int64_t span_every_;  // ranks; 0: none is kept
  Timing timing_;
  RankSet present_;
  std::string frame_;
  CallTiming call_;
  std::vector<std::int64_t> before_, waited_;  // of this call, by rank
  LocalWork work_;                             // of this call
  bool first_round_ = true;
};

}  // namespace lockstep::worker::simulator
