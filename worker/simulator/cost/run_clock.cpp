#include <algorithm>

#include <lockstep/worker/simulator/cost/run_clock.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::size_t kSpansPerCall = 6;  // per rank, roughly
constexpr std::size_t kMostTracks = 512;

std::int64_t span_every(std::int32_t size, std::size_t calls, std::size_t most) {
  const std::size_t fit = most / std::max<std::size_t>(1, calls * kSpansPerCall);
  const std::size_t ranks = std::clamp<std::size_t>(fit, 1, kMostTracks);
  const auto all = static_cast<std::size_t>(size);
  if (most == 0 || all == 0) return 0;
  return static_cast<std::int64_t>((all + ranks - 1) / ranks);
}

}  // namespace

RunClock::RunClock(const CostModel& model, int size, std::size_t calls, std::size_t most_spans)
    : model_(model),
      size_(size),
      clocks_(model.network, size),
      span_every_(span_every(size, calls, most_spans)) {
  const auto ranks = static_cast<std::size_t>(size);
  timing_.network = model.network;
  timing_.data_network = model.data_network;
  timing_.device = model.device;
  for (auto* sums : {&timing_.ranks.wait_ns, &timing_.ranks.agreement_ns, &timing_.ranks.compile_ns,
                     &timing_.ranks.step_ns, &before_, &waited_})
    sums->assign(ranks, 0);
}

void RunClock::begin(const RankSet& present, const std::string& frame) {
  const std::span<std::int64_t> now = clocks_.now();
  present_ = present;
  frame_ = frame;
  call_ = {};
  first_round_ = true;
  work_ = {};
  std::fill(waited_.begin(), waited_.end(), 0);
  std::int64_t earliest = kLongestSum;
  for (const RankSet::Run& run : present.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) {
      std::int64_t& at = now[static_cast<std::size_t>(r)];
      at = sum_of_times(at, model_.skew_ns(timing_.calls.size(), r));
      earliest = std::min(earliest, at);
    }
  call_.begin_ns = present.empty() ? clocks_.latest() : earliest;
}

/// Adds of(rank) to the clock and to the sum of each present rank.
template <class Of>
void RunClock::pass(SpanKind kind, std::vector<std::int64_t>& sums, Of of) {
  const std::span<std::int64_t> now = clocks_.now();
  for (const RankSet::Run& run : present_.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const std::int64_t took = of(i);
      keep(kind, r, now[i], now[i] + took);
      sums[i] = sum_of_times(sums[i], took);
      now[i] += took;
    }
}

/// Returns the time at which the last present rank arrived.
std::int64_t RunClock::last_arrival() {
  const std::span<const std::int64_t> now = clocks_.now();
  std::int64_t earliest = kLongestSum, latest = 0;
  std::int32_t last = -1;
  for (const RankSet::Run& run : present_.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) {
      const std::int64_t at = now[static_cast<std::size_t>(r)];
      earliest = std::min(earliest, at);
      if (last < 0 || at > latest) last = r;
      latest = std::max(latest, at);
    }
  if (first_round_ && earliest < latest) call_.last_rank = last;
  first_round_ = false;
  return latest;
}

/// Lets all ranks wait for the last one, and records their waits.
void RunClock::gather() {
  const std::int64_t latest = last_arrival();
  const std::span<const std::int64_t> now = clocks_.now();
  for (const RankSet::Run& run : present_.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const std::int64_t wait = latest - now[i];
      keep(SpanKind::Wait, r, now[i], latest);
      waited_[i] += wait;
      timing_.ranks.wait_ns[i] = sum_of_times(timing_.ranks.wait_ns[i], wait);
    }
}

// A rank's messages leave when it arrives, not when all have arrived. So each clock advances from
// its own time, and the time after the last arrival is agreement. A broadcast waits only for its
// root: all of its time is agreement.
template <class Move>
void RunClock::round(SpanKind kind, Move move) {
  build();
  const std::span<const std::int64_t> now = clocks_.now();
  const std::int64_t start = clocks_.latest();
  if (kind != SpanKind::Broadcast) gather();
  before_.assign(now.begin(), now.end());
  if (kind != SpanKind::Broadcast) std::fill(before_.begin(), before_.end(), start);
  move();
  for (std::int32_t r = 0; r < size_; ++r) {
    const auto i = static_cast<std::size_t>(r);
    keep(kind, r, before_[i], now[i]);
    timing_.ranks.agreement_ns[i] =
        sum_of_times(timing_.ranks.agreement_ns[i], now[i] - before_[i]);
  }
  call_.agreement_ns += clocks_.latest() - start;
}

void RunClock::vote() {
  round(SpanKind::Vote, [this] { clocks_.vote(); });
}
void RunClock::tree_join(const TreeBytes& bytes) {
  round(SpanKind::Exchange, [&] { clocks_.tree_join(bytes); });
}
void RunClock::broadcast(Rank root, std::uint64_t bytes) {
  round(SpanKind::Broadcast, [&] { clocks_.broadcast(root, bytes); });
}

void RunClock::work(const LocalWork& work) { work_.join(work); }

void RunClock::build() {
  if (!work_.built) return;
  work_.built = false;
  const std::int64_t took = model_.compile_ns(frame_, work_.sources, work_.symbols);
  pass(SpanKind::Compile, timing_.ranks.compile_ns, [took](std::size_t) { return took; });
  call_.compile_ns += took;
}

void RunClock::time_out_all() {
  const std::int64_t end = last_arrival() + model_.deadline_ns;
  const std::span<const std::int64_t> now = clocks_.now();
  pass(SpanKind::Wait, timing_.ranks.wait_ns, [&](std::size_t i) {
    waited_[i] = end - now[i];
    return waited_[i];
  });
}

void RunClock::step(const Elements& elements) {
  const StepModel& step = model_.of(frame_).step;
  const std::span<std::int64_t> now = clocks_.now();
  std::vector<std::int64_t> of_rank;
  if (step.counts_elements()) {
    of_rank.assign(static_cast<std::size_t>(size_), 0);
    elements(of_rank);
  }
  std::int64_t slowest = 0;
  pass(SpanKind::Step, timing_.ranks.step_ns, [&](std::size_t i) {
    const std::int64_t count = of_rank.empty() ? 0 : of_rank[i];
    const std::int64_t own = model_.own_step_ns(step, count);
    slowest = std::max(slowest, own);
    if (step.memory) hold(static_cast<std::int32_t>(i), step.memory->of(count));
    return own;
  });
  call_.data_ns = model_.data_ns(step, size_);
  call_.step_ns = slowest + call_.data_ns;
  if (step.collectives.empty()) return;
  gather();
  const std::int64_t start = clocks_.latest();
  std::fill(now.begin(), now.end(), start);
  pass(model_.data_network ? SpanKind::Data : SpanKind::Step, timing_.ranks.step_ns,
       [&](std::size_t) { return call_.data_ns; });
}

/// Records the peak of the call, with the lowest rank that holds the most.
void RunClock::hold(std::int32_t rank, std::int64_t bytes) {
  if (!call_.memory || bytes > call_.memory->bytes)
    call_.memory = MemoryPeak{.bytes = bytes, .rank = rank};
}

void RunClock::end(bool steps, const Elements& elements) {
  build();
  if (steps) step(elements);
  const std::span<std::int64_t> now = clocks_.now();
  std::vector<std::int64_t> waits;
  call_.end_ns = call_.begin_ns;
  for (const RankSet::Run& run : present_.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) {
      const auto i = static_cast<std::size_t>(r);
      waits.push_back(waited_[i]);
      call_.end_ns = std::max(call_.end_ns, now[i]);
      now[i] = std::min(now[i], kLongestSum);
    }
  call_.wait = percentiles(waits);
  timing_.end_ns = std::max(timing_.end_ns, call_.end_ns);
  timing_.calls.push_back(call_);
}

void RunClock::keep(SpanKind kind, std::int32_t rank, std::int64_t begin, std::int64_t end) {
  if (span_every_ == 0 || rank % span_every_ != 0 || begin >= end) return;
  timing_.spans.push_back(
      {static_cast<std::uint32_t>(timing_.calls.size()), rank, kind, begin, end});
}

Timing RunClock::take() { return std::move(timing_); }

}  // namespace lockstep::worker::simulator
