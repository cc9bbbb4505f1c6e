#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/simulated/simulated_data.h>
#include <lockstep/collectives/simulated/simulated_network.h>
#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {
namespace {

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

VirtualNetwork::State::State(const NetworkOptions& options)
    : options_(options), random_(options.seed), ranks_(static_cast<std::size_t>(options.size)) {
  (void)group(RankSet::all(options.size));  // The first group is kWorldGroup.
}

SimulatedGroup& VirtualNetwork::State::group(const RankSet& members) {
  std::unique_ptr<SimulatedGroup>& group = group_of_[members.runs()];
  if (group) return *group;
  group = std::make_unique<SimulatedGroup>();
  group->state.id = groups_.size();
  group->state.members = members;
  group->state.begun.resize(ranks_.size());
  groups_.push_back(group.get());
  for (const Rank each : members) {
    const Rank place{static_cast<std::int32_t>(group->ports.size())};
    group->ports.push_back(std::make_unique<SimulatedPort>(*this, *group, place, each));
    rank(each).ports.push_back(group->ports.back().get());
  }
  return *group;
}

Duration VirtualNetwork::State::delay() {
  const auto spread =
      static_cast<std::uint64_t>((options_.most_delay - options_.least_delay).count());
  if (spread == 0) return options_.least_delay;
  return options_.least_delay +
         Duration(static_cast<std::int64_t>(next_random(random_) % (spread + 1)));
}

bool VirtualNetwork::State::crashed(Rank rank) const {
  return now() >= ranks_[static_cast<std::size_t>(rank.value)].crashed_at;
}

bool VirtualNetwork::State::frozen(Rank rank) const {
  const SimulatedRank& state = ranks_[static_cast<std::size_t>(rank.value)];
  return crashed(rank) || (now() >= state.stopped_from && now() < state.stopped_until);
}

template <class Visit>
void VirtualNetwork::State::each_under_way(Visit visit) {
  for (SimulatedRank& rank : ranks_)
    for (SimulatedPort* port : rank.ports)
      if (port->under_way()) visit(*port);
}

void VirtualNetwork::State::post_message(SimulatedPort& from, Rank to, bool bare,
                                         std::span<const std::byte> body) {
  SimulatedPort& receiver = *from.group().ports[static_cast<std::size_t>(to.value)];
  if (recording())
    record(fmt::format("{} send {}->{} {} bytes", now().count(), from.of_job().value,
                       receiver.of_job().value, body.size()));
  SimulatedEvent event;
  event.at = from.arrival(to, now() + rank(from.of_job()).extra + delay());
  event.kind = SimulatedEvent::Kind::Message;
  event.port = &receiver;
  event.what = messages_.add(from.rank().value, bare, body);
  post(event);
}

void VirtualNetwork::State::post_call(Instant at, std::function<void()> then) {
  SimulatedEvent event;
  event.at = at;
  event.kind = SimulatedEvent::Kind::Call;
  event.what = calls_.add(std::move(then));
  post(event);
}

void VirtualNetwork::State::post_timer(SimulatedPort& port) {
  if (port.timer_posted && !any_gone_) return;
  port.timer_posted = true;
  SimulatedEvent event;
  event.at = any_gone_ ? now() + options_.detection : port.started() + options_.deadline;
  event.at = std::max(event.at, now()) + Duration(1);
  event.kind = SimulatedEvent::Kind::Timer;
  event.port = &port;
  post(event);
}

void VirtualNetwork::State::gone() {
  any_gone_ = true;
  each_under_way([this](SimulatedPort& port) { post_timer(port); });
}

// Each rank sees the end of a collective after its own delay.
void VirtualNetwork::State::contribute(SimulatedGroup& group) {
  if (group.in_collective < group.ports.size()) return;
  group.in_collective = 0;
  std::vector<Collective> all;
  for (const auto& port : group.ports) all.push_back(*port->collective());
  const Result<void> fit = fit_together(all);
  if (fit) carry_out(all);
  for (const auto& port : group.ports) {
    if (!fit) {
      port->fail(fit.error());
      continue;
    }
    SimulatedEvent event;
    event.at = now() + delay();
    event.kind = SimulatedEvent::Kind::DataDone;
    event.port = port.get();
    post(event);
  }
}

BoardSnapshot VirtualNetwork::State::board() const {
  BoardSnapshot board;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankState state = ranks_[r].shown;
    const Rank rank{static_cast<std::int32_t>(r)};
    state.known = true;
    state.pid = rank.value;
    state.lost = crashed(rank);
    state.stopped = frozen(rank) && !state.lost;
    board.ranks.push_back(std::move(state));
  }
  for (const SimulatedGroup* group : groups_) board.groups.push_back(group->state);
  return board;
}

void VirtualNetwork::State::look_at(SimulatedPort& port) {
  port.timer_posted = false;
  if (!port.under_way() || frozen(port.of_job())) return;
  port.show();
  // Until a wait is as old as the deadline, judge() can only find ranks that are gone.
  const bool may_find =
      any_gone_ || now() >= first_crash_ || now() - port.started() > options_.deadline;
  if (auto verdict = may_find
                         ? judge(board(), {port.of_job(), port.started()}, now(), options_.deadline)
                         : std::nullopt) {
    // As in a real job, the first verdict ends the job for all ranks.
    verdict_ = std::move(verdict->status);
    culprits_ = std::move(verdict->culprits);
    each_under_way([this](SimulatedPort& each) {
      if (!crashed(each.of_job())) each.fail(*verdict_);
    });
    return;
  }
  SimulatedEvent event;
  event.at = next_due() + Duration(1);
  event.kind = SimulatedEvent::Kind::Timer;
  event.port = &port;
  port.timer_posted = true;
  post(event);
}

// The next time at which some rank will have shown no progress for the deadline.
Instant VirtualNetwork::State::next_due() {
  if (due_ > now() && moves_ == due_moves_) return std::min(due_, now() + options_.deadline);
  due_ = Instant::max();
  due_moves_ = moves_;
  for (const SimulatedRank& each : ranks_)
    if (const Instant due = each.shown.progress + options_.deadline; due > now())
      due_ = std::min(due_, due);
  return std::min(due_, now() + options_.deadline);
}

void VirtualNetwork::State::crash(Rank of_job, Instant at) {
  Instant& crashed = rank(of_job).crashed_at;
  crashed = std::min(crashed, at);
  first_crash_ = std::min(first_crash_, at);
  SimulatedEvent event;
  event.at = at;
  event.kind = SimulatedEvent::Kind::Crash;
  event.what = static_cast<std::uint32_t>(of_job.value);
  post(event);
}

bool VirtualNetwork::State::step() {
  while (!events_.empty()) {
    const SimulatedEvent event = events_.take();
    if (event.kind == SimulatedEvent::Kind::Timer &&
        (!event.port->under_way() || frozen(event.port->of_job()))) {
      event.port->timer_posted = false;  // Nothing waits at the port: time need not pass.
      continue;
    }
    if (event.at > now()) clock_.advance(event.at - now());
    dispatch(event);
    return true;
  }
  return false;
}

void VirtualNetwork::State::resume(Rank of_job) {
  for (SimulatedPort* port : rank(of_job).ports) {
    port->advance();
    if (port->under_way()) post_timer(*port);
  }
}

void VirtualNetwork::State::log_event(const SimulatedEvent& event) {
  using Kind = SimulatedEvent::Kind;
  const auto line = [&](std::string_view what, std::int32_t of_job) {
    record(fmt::format("{} {} {}", now().count(), what, of_job));
  };
  switch (event.kind) {
    case Kind::Message: {
      const auto from = static_cast<std::size_t>(messages_[event.what].from);
      return record(fmt::format("{} deliver {}->{}", now().count(),
                                event.port->group().ports[from]->of_job().value,
                                event.port->of_job().value));
    }
    case Kind::DataDone:
      return line("collective done on", event.port->of_job().value);
    case Kind::Timer:
      return line("look at", event.port->of_job().value);
    case Kind::Crash:
      return line("crash", static_cast<std::int32_t>(event.what));
    case Kind::Resume:
      return line("resume", static_cast<std::int32_t>(event.what));
    case Kind::Call:
      return record(fmt::format("{} call", now().count()));
  }
}

void VirtualNetwork::State::dispatch(const SimulatedEvent& event) {
  if (recording()) log_event(event);
  switch (event.kind) {
    case SimulatedEvent::Kind::Message:
      return event.port->deliver(event.what);
    case SimulatedEvent::Kind::DataDone:
      return event.port->data_done();
    case SimulatedEvent::Kind::Timer:
      return look_at(*event.port);
    case SimulatedEvent::Kind::Crash:
      return gone();
    case SimulatedEvent::Kind::Resume:
      return resume(Rank{static_cast<std::int32_t>(event.what)});
    case SimulatedEvent::Kind::Call:
      return calls_.take(event.what)();
  }
}

}  // namespace lockstep::collectives
