#include <algorithm>
#include <deque>
#include <map>
#include <variant>

#include <fmt/format.h>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/worker/simulator/cluster/timed_call.h>
#include <lockstep/worker/simulator/cluster/timed_run.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::BroadcastRound;
using collectives::TreeRound;
using collectives::VoteRound;
using Kind = Fault::Kind;

/// A round has a last rank if its first and last arrival are at least this far apart.
constexpr Duration kNoticed = std::chrono::milliseconds(1);

/// The ranks that have arrived at a round.
struct Arrivals {
  std::int32_t count = 0;
  Instant first{0}, last{0};
  Rank last_rank{};
};

/// A rank's progress through the calls.
struct Seat {
  std::size_t unit = 0, call = 0, step = 0;
  std::uint64_t rounds = 0;                      // number of rounds begun
  std::optional<std::size_t> faults_applied_at;  // the call whose faults were applied last
  Instant began{0};                              // start of the current round
  Duration waited{0};
  bool over = false;
  std::variant<std::monostate, VoteRound, TreeRound, BroadcastRound> round;

  collectives::Round* under_way() {
    if (auto* vote = std::get_if<VoteRound>(&round)) return vote;
    if (auto* tree = std::get_if<TreeRound>(&round)) return tree;
    return std::get_if<BroadcastRound>(&round);
  }
};

class TimedJob {
 public:
  TimedJob(const Scenario& scenario, const FaultPlan& plan, std::span<const Fault> faults,
           const std::function<void(std::size_t, std::size_t)>& progress)
      : scenario_(scenario),
        plan_(plan),
        faults_(faults),
        progress_(progress),
        cast_(scenario, faults),
        network_({.size = scenario.world_size,
                  .seed = 0,
                  .least_delay = plan.latency,
                  .most_delay = plan.latency,
                  .deadline = plan.deadline}),
        seats_(static_cast<std::size_t>(scenario.world_size)),
        calls_(scenario.count()) {
    run_.struck.resize(faults.size());
    run_.call_ended.resize(calls_);
    results_.resize(calls_);
  }

  TimedRun run() {
    for (std::size_t u = 0; u < cast_.units().size(); ++u)
      for (std::int32_t r = cast_.units()[u].first; r <= cast_.units()[u].last; ++r)
        seat(Rank{r}).unit = u;
    start();
    while (!run_.verdict && over_ < seats_.size()) {
      for (auto ranks = network_.take_ended(); !ranks.empty(); ranks = network_.take_ended())
        for (const Rank rank : ranks) ended(rank);
      if (run_.verdict || over_ == seats_.size() || !network_.step()) break;
      ++run_.events;
    }
    return result();
  }

 private:
  Seat& seat(Rank rank) { return seats_[static_cast<std::size_t>(rank.value)]; }
  [[nodiscard]] Instant now() const { return network_.clock().now(); }
  void start();
  void stop_and_crash_at_times();
  void begin(Rank rank);
  bool apply_arrival_faults(Rank rank);
  void act(Rank rank);
  void enter(Rank rank);
  void ended(Rank rank);
  void close_call(Rank rank);
  void work(Rank rank, Duration duration, std::function<void()> then);
  [[nodiscard]] Duration compile_of(std::size_t unit, TimedCall& call) const;
  [[nodiscard]] Duration step_of(Rank rank, const std::string& frame);
  void strike(std::size_t fault) {
    if (!run_.struck[fault]) run_.struck[fault] = now();
  }
  TimedCall& call(std::size_t index);
  void leave_call(Rank rank, bool made);
  TimedRun result();

  const Scenario& scenario_;
  const FaultPlan& plan_;
  std::span<const Fault> faults_;
  const std::function<void(std::size_t, std::size_t)>& progress_;
  Cast cast_;
  collectives::VirtualNetwork network_;
  std::vector<Seat> seats_;
  std::size_t calls_;
  std::size_t over_ = 0;
  /// A call that some rank is in, or has not arrived at.
  struct Open {
    std::unique_ptr<TimedCall> call;
    std::size_t left = 0;  // number of ranks that have left it
  };
  std::deque<Open> open_;
  std::size_t first_open_ = 0;
  std::deque<Arrivals> arrivals_;  // by round, from first_arrivals_ on
  std::uint64_t first_arrivals_ = 0;
  std::map<std::int32_t, std::uint32_t> last_;  // number of rounds for which each rank was last
  std::vector<std::optional<CallResult>> results_;
  TimedRun run_;
};

// Ranks that are late to the start hold up all ranks: MPI itself, or a rendezvous, waits for them.
void TimedJob::start() {
  Duration latest{0};
  for (const Fault& fault : faults_)
    if (fault.kind == Kind::Late && !fault.call) latest = std::max(latest, fault.delay);
  for (std::size_t i = 0; i < faults_.size(); ++i)
    if (faults_[i].kind == Kind::Late && !faults_[i].call) strike(i);
  const Duration patience = kStartDeadlines * plan_.deadline;
  for (Seat& seat : seats_) seat.waited = std::min(latest, patience);
  for (const Fault& fault : faults_) {
    if (fault.kind != Kind::Late || fault.call) continue;
    for (const Rank rank : fault.ranks) {
      Duration& waited = seat(rank).waited;
      waited = std::min(waited, std::max(Duration{0}, std::min(latest, patience) - fault.delay));
    }
  }
  if (latest > patience) {
    run_.end = patience;
    run_.verdict =
        Status{// the same as over MPI, where it is not known yet which ranks are missing
               Code::Stuck,
               fmt::format("The start has waited for {:g} s for ranks that did not come to it.",
                           std::chrono::duration<double>(patience).count()),
               {},
               {}};
    return;
  }
  stop_and_crash_at_times();
  for (std::int32_t r = 0; r < scenario_.world_size; ++r)
    work(Rank{r}, latest, [this, r] { begin(Rank{r}); });
}

void TimedJob::stop_and_crash_at_times() {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!fault.at || !row_of(fault.kind).is(FaultRow::Halts)) continue;
    network_.call_at(*fault.at, [this, i] { strike(i); });
    const Instant until = fault.lasts ? *fault.at + *fault.lasts : Instant::max();
    for (const Rank rank : fault.ranks)
      if (fault.kind == Kind::Crashed)
        network_.crash(rank, *fault.at);
      else
        network_.stop(rank, *fault.at, until);
  }
}

TimedCall& TimedJob::call(std::size_t index) {
  while (first_open_ + open_.size() <= index) {
    const std::size_t next = first_open_ + open_.size();
    if (progress_) progress_(next, calls_);
    open_.emplace_back().call = std::make_unique<TimedCall>(cast_, next);
  }
  return *open_[index - first_open_].call;
}

/// `made`: false if the rank skips the call.
void TimedJob::leave_call(Rank rank, bool made) {
  const std::size_t index = seat(rank).call++;
  Open& open = open_[index - first_open_];
  ++open.left;
  if (made || open.call->nobody()) {
    if (run_.call_ended[index] == Instant{0}) run_.call_ended[index] = now();
    if (!results_[index]) results_[index] = open.call->result();
  }
  while (!open_.empty() && open_.front().left == seats_.size()) {
    open_.pop_front();
    ++first_open_;
  }
}

void TimedJob::begin(Rank rank) {
  Seat& seat = this->seat(rank);
  for (;; leave_call(rank, false)) {
    if (apply_arrival_faults(rank)) return;
    if (seat.call == calls_) return enter(rank);
    if (call(seat.call).has(seat.unit)) break;
  }
  TimedCall& call = this->call(seat.call);
  seat.step = 0;
  if (call.has_absent_ranks()) {
    network_.lease(rank, now() + plan_.deadline);
    seat.waited += plan_.deadline;
    return work(rank, plan_.deadline, [this, rank] { close_call(rank); });
  }
  network_.note(rank, call.text(seat.unit));
  act(rank);
}

// Applies the faults that strike a rank as it arrives at a call. Returns true if the rank does not
// begin the call now.
bool TimedJob::apply_arrival_faults(Rank rank) {
  Seat& seat = this->seat(rank);
  if (seat.faults_applied_at == seat.call) return false;
  seat.faults_applied_at = seat.call;
  Duration pause{0};
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.call != seat.call || seat.call == calls_ || !fault.ranks.contains(rank)) continue;
    switch (fault.kind) {
      case Kind::Slow:          // later, in step_of()
      case Kind::CompileFails:  // later, in act()
        continue;
      case Kind::Crashed:
        strike(i);
        network_.crash(rank, now());
        return true;
      case Kind::Stopped:
        strike(i);
        network_.stop(rank, now(), fault.lasts ? now() + *fault.lasts : Instant::max());
        if (!fault.lasts) return true;
        pause += *fault.lasts;
        break;
      case Kind::Late:
        pause += fault.delay;
        [[fallthrough]];
      case Kind::Branch:  // TimedCall does the rest
      case Kind::CacheLost:
        strike(i);
    }
  }
  if (pause == Duration{0}) return false;
  work(rank, pause, [this, rank] { begin(rank); });
  return true;
}

void TimedJob::act(Rank rank) {
  Seat& seat = this->seat(rank);
  TimedCall& call = this->call(seat.call);
  const Action& action = call.action(seat.unit, seat.step);
  if (std::holds_alternative<action::Finish>(action)) return close_call(rank);
  if (!std::holds_alternative<action::Compile>(action)) return enter(rank);
  for (std::size_t i = 0; i < faults_.size(); ++i)
    if (faults_[i].kind == Kind::CompileFails && faults_[i].call.value_or(0) <= seat.call &&
        faults_[i].ranks.contains(rank))
      strike(i);
  const Duration once = compile_of(seat.unit, call);
  const Duration time = call.peers_build_for_failed() ? 2 * once : once;
  ++seat.step;
  network_.lease(rank, now() + time);
  work(rank, time, [this, rank] { act(rank); });
}

/// Starts the round of the rank's current action; after the last call, the vote that ends a job.
void TimedJob::enter(Rank rank) {
  Seat& seat = this->seat(rank);
  const int size = scenario_.world_size;
  if (seat.call == calls_) {
    seat.round.emplace<VoteRound>(rank, size, collectives::Vote{});
    network_.note(rank, "finish");
  } else {
    const Action& action = call(seat.call).action(seat.unit, seat.step);
    if (const auto* vote = std::get_if<action::Vote>(&action)) {
      seat.round.emplace<VoteRound>(rank, size, vote->mine, vote->combine);
    } else if (const auto* to_join = std::get_if<action::TreeJoin>(&action)) {
      seat.round.emplace<TreeRound>(rank, size, to_join->mine, to_join->join);
    } else {
      const auto& broadcast = std::get<action::Broadcast>(action);
      seat.round.emplace<BroadcastRound>(rank, size, broadcast.root, broadcast.mine);
    }
  }
  seat.began = now();
  while (first_arrivals_ + arrivals_.size() <= seat.rounds) arrivals_.push_back({});
  Arrivals& arrivals = arrivals_[seat.rounds - first_arrivals_];
  ++seat.rounds;
  if (arrivals.count++ == 0) arrivals.first = now();
  arrivals.last = now();
  arrivals.last_rank = rank;
  if (arrivals.count == size && arrivals.last - arrivals.first >= kNoticed) ++last_[rank.value];
  network_.communicator(rank).start(*seat.under_way());
}

void TimedJob::ended(Rank rank) {
  Seat& seat = this->seat(rank);
  if (auto done = network_.communicator(rank).poll(); !done) {
    if (!run_.verdict) run_.verdict = done.error();
    run_.culprits = network_.culprits();
    run_.end = now();
    return;
  }
  const Arrivals& arrivals = arrivals_[seat.rounds - 1 - first_arrivals_];
  seat.waited += std::max(Duration{0}, arrivals.last - seat.began);
  while (arrivals_.size() > 2 && arrivals_.front().count == scenario_.world_size &&
         arrivals_[1].count == scenario_.world_size) {
    arrivals_.pop_front();
    ++first_arrivals_;
  }
  if (seat.call == calls_) {
    seat.over = true;
    ++over_;
    return;
  }
  call(seat.call).report(seat.unit, seat.step, *seat.under_way());
  ++seat.step;
  act(rank);
}

void TimedJob::close_call(Rank rank) {
  const std::string frame = call(seat(rank).call).frame(seat(rank).unit);
  leave_call(rank, true);
  work(rank, step_of(rank, frame), [this, rank] { begin(rank); });
}

Duration TimedJob::compile_of(std::size_t unit, TimedCall& call) const {
  if (plan_.compile || !scenario_.cost) return plan_.compile.value_or(kUsualCompile);
  return Duration(
      scenario_.cost->compile_ns(call.frame(unit), call.sources(unit), call.symbols(unit)));
}

Duration TimedJob::step_of(Rank rank, const std::string& frame) {
  const auto& cost = scenario_.cost;
  Duration out =
      plan_.step.value_or(cost ? Duration(cost->own_step_ns(cost->of(frame).step, 0)) : kUsualStep);
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.kind != Kind::Slow || !fault.ranks.contains(rank)) continue;
    if (fault.call && seat(rank).call <= *fault.call) continue;
    const Instant from = run_.struck[i].value_or(fault.at.value_or(now()));
    if (now() < from || (fault.lasts && now() >= from + *fault.lasts)) continue;
    strike(i);
    out += fault.delay;
  }
  return out;
}

// Runs `then` after `duration` of the rank's work. A stop meanwhile adds its time; after a crash,
// `then` never runs.
void TimedJob::work(Rank rank, Duration duration, std::function<void()> then) {
  Instant done = now() + duration;
  for (const Fault& fault : faults_) {
    if (!fault.at || !fault.ranks.contains(rank)) continue;
    if (fault.kind == Kind::Crashed && *fault.at <= done) return;
    if (fault.kind != Kind::Stopped || *fault.at > done) continue;
    if (!fault.lasts) return;
    const Instant until = *fault.at + *fault.lasts;
    if (until > now()) done += until - std::max(*fault.at, now());
  }
  network_.call_at(done, std::move(then));
}

TimedRun TimedJob::result() {
  if (!run_.verdict) {
    run_.end = now();
    run_.hangs = over_ < seats_.size();
  }
  for (Seat& seat : seats_) {
    const bool waits = run_.verdict && !seat.over && seat.under_way() != nullptr;
    run_.waited.push_back(seat.waited + (waits ? run_.end - seat.began : Duration{0}));
  }
  for (std::size_t i = 0; i < calls_ && results_[i]; ++i)
    run_.calls.push_back(*std::move(results_[i]));
  run_.call_ended.resize(run_.calls.size());
  std::uint32_t most = 0;
  for (const auto& [rank, times] : last_) most = std::max(most, times);
  for (const auto& [rank, times] : last_)
    if (times == most) run_.last.insert(Rank{rank});
  for (std::size_t i = 0; i < faults_.size(); ++i)
    if (run_.struck[i] && *run_.struck[i] > run_.end) run_.struck[i].reset();
  return std::move(run_);
}

}  // namespace

TimedRun timed_run(const Scenario& scenario, const FaultPlan& plan, std::span<const Fault> faults,
                   const std::function<void(std::size_t, std::size_t)>& progress) {
  return TimedJob(scenario, plan, faults, progress).run();
}

std::uint64_t timed_run_bytes(const Scenario& scenario) {
  constexpr std::uint64_t kRank = 1700;     // bytes of a rank: on the network, and its seat
  constexpr std::uint64_t kMachine = 6000;  // bytes of its own machine, if ranks draw their own
                                            // inputs
  return static_cast<std::uint64_t>(scenario.world_size) *
         (kRank + (scenario.generator.apart() ? kMachine : 0));
}

}  // namespace lockstep::worker::simulator
