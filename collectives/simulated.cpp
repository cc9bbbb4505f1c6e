#include <algorithm>
#include <cstdlib>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/simulated.h>
#include <lockstep/collectives/simulated_data.h>
#include <lockstep/collectives/verdict.h>

namespace lockstep::collectives {
namespace {

constexpr Instant kNever = Instant::max();

struct Message {
  std::int32_t from = 0;
  bool bare = false;  // of a round whose messages have one length
  Bytes body;
};

struct Event {
  enum class Kind : std::uint8_t { Message, DataDone, Timer, Crash, Resume, Call };
  Instant at{0};
  std::uint64_t serial = 0;
  Kind kind = Kind::Message;
  std::int32_t to = 0;
  Message message;
  std::function<void()> then;

  /// Heap order: the earliest on top, those of one instant in the order of posting.
  bool operator<(const Event& other) const {
    return at != other.at ? at > other.at : serial > other.serial;
  }
};

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

/// One rank's end of the network. Moves when the network delivers something to it.
class VirtualNetwork::Port final : public Communicator {
 public:
  Port(VirtualNetwork::State& network, Rank rank) : network_(network), rank_(rank) {}

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] int size() const override;
  [[nodiscard]] std::string name() const override { return "simulated"; }
  void start(Round& round) override;
  [[nodiscard]] Result<void> start(const Collective& collective) override;
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override;
  [[nodiscard]] Result<bool> poll() override;
  [[nodiscard]] Result<void> wait() override;

  void deliver(Message message);
  /// Moves the round as far as the messages at hand allow.
  void advance();
  void data_done();
  void fail(Status status);
  [[nodiscard]] bool under_way() const { return round_ != nullptr || collective_.has_value(); }

  VirtualNetwork::State& network_;
  Rank rank_;
  std::deque<Message> inbox_;
  Round* round_ = nullptr;
  bool swap_sent_ = false;
  std::optional<Collective> collective_;
  std::optional<Status> failure_;
  Traffic traffic_;
  // What the board would show of this rank.
  RankState shown_;
  Instant started_{0};
  bool timer_posted_ = false;
  // Faults.
  Instant stopped_from_ = kNever, stopped_until_ = kNever, crashed_at_ = kNever;
  Duration extra_{0};

 private:
  void begin(OperationKind kind);
  void end();
  [[nodiscard]] Result<void> wait_until(const std::function<bool()>& over);
  [[nodiscard]] bool take_message(Rank from);
  void send(Rank to);
};

class VirtualNetwork::State {
 public:
  explicit State(const NetworkOptions& options) : options_(options), random_(options.seed) {
    for (int r = 0; r < options.size; ++r) ports_.push_back(std::make_unique<Port>(*this, Rank{r}));
  }

  [[nodiscard]] Port& port(Rank rank) { return *ports_[static_cast<std::size_t>(rank.value)]; }
  [[nodiscard]] Instant now() const { return clock_.now(); }
  [[nodiscard]] Duration delay() {
    const auto spread =
        static_cast<std::uint64_t>((options_.most_delay - options_.least_delay).count());
    return options_.least_delay +
           Duration(static_cast<std::int64_t>(next_random(random_) % (spread + 1)));
  }
  [[nodiscard]] bool crashed(const Port& p) const { return now() >= p.crashed_at_; }
  [[nodiscard]] bool stopped(const Port& p) const {
    return now() >= p.stopped_from_ && now() < p.stopped_until_;
  }
  [[nodiscard]] bool frozen(const Port& p) const { return crashed(p) || stopped(p); }

  void post(Event event) {
    event.serial = serial_++;
    events_.push_back(std::move(event));
    std::push_heap(events_.begin(), events_.end());
  }
  void post_message(Rank from, Rank to, Message message);
  /// Posts when to look at a waiting rank again.
  void post_timer(Port& port);
  void contribute();
  bool step();
  void dispatch(Event& event);
  void look_at(Port& port);
  [[nodiscard]] BoardSnapshot board() const;
  void record(std::string line) {
    if (options_.record) log_.push_back(std::move(line));
  }

  NetworkOptions options_;
  std::uint64_t random_;
  ManualClock clock_;
  std::uint64_t serial_ = 0;
  std::vector<Event> events_;
  std::unordered_map<std::uint64_t, Instant> last_arrival_;  // looked up only, never iterated
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Rank> ended_;
  std::vector<std::string> log_;
  int in_collective_ = 0;
  std::optional<Status> verdict_;  // that ended the job
  bool any_crash_ = false;
};

int VirtualNetwork::Port::size() const { return network_.options_.size; }

void VirtualNetwork::Port::begin(OperationKind kind) {
  ++shown_.begun;
  shown_.ordinal = shown_.begun;
  shown_.operation = kind;
  shown_.waiting = true;
  started_ = shown_.progress = network_.now();
}

// Of the round, or of the collective: the other may still be under way.
void VirtualNetwork::Port::end() {
  shown_.waiting = under_way();
  shown_.progress = network_.now();
  network_.ended_.push_back(rank_);
}

void VirtualNetwork::Port::fail(Status status) {
  network_.record(fmt::format("{} rank {} fails: {}", network_.now().count(), rank_.value,
                              code_name(status.code)));
  if (collective_) --network_.in_collective_;
  failure_ = std::move(status);
  round_ = nullptr;
  collective_.reset();
  end();
}

void VirtualNetwork::Port::start(Round& round) {
  if (!failure_) failure_ = network_.verdict_;
  if (failure_ || network_.crashed(*this)) return;
  begin(round.message_bytes() != 0 ? OperationKind::Vote : OperationKind::Exchange);
  round_ = &round;
  advance();
  if (under_way()) network_.post_timer(*this);
}

Result<void> VirtualNetwork::Port::start(const Collective& collective) {
  if (!failure_) failure_ = network_.verdict_;
  if (failure_) return *failure_;
  if (auto ok = check(collective, size()); !ok) return ok;
  if (network_.crashed(*this)) return {};
  begin(static_cast<OperationKind>(static_cast<int>(OperationKind::AllToAll) +
                                   static_cast<int>(collective.kind)));
  shown_.event = collective.label;
  collective_ = collective;
  ++network_.in_collective_;
  network_.contribute();
  if (under_way()) network_.post_timer(*this);
  return {};
}

Result<bool> VirtualNetwork::Port::poll() {
  if (failure_) return *failure_;
  return !under_way() && !network_.crashed(*this);
}

Result<void> VirtualNetwork::Port::run(const Collective& collective) {
  if (auto started = start(collective); !started) return started;
  return wait_until([this] { return !collective_; });
}

Result<void> VirtualNetwork::Port::wait() {
  return wait_until([this] { return !under_way(); });
}

Result<void> VirtualNetwork::Port::wait_until(const std::function<bool()>& over) {
  for (;;) {
    if (failure_) return *failure_;
    if (over() && !network_.crashed(*this)) return {};
    if (network_.step()) continue;
    return Status{
        Code::Stuck,
        fmt::format("Rank {} waits in {} {} and nothing in the simulated network can end it.",
                    rank_.value, operation_name(shown_.operation), shown_.ordinal),
        "", last_seen(network_.board(), network_.now())};
  }
}

void VirtualNetwork::Port::deliver(Message message) {
  ++traffic_.messages;
  traffic_.bytes += message.body.size();
  inbox_.push_back(std::move(message));
  advance();
}

bool VirtualNetwork::Port::take_message(Rank from) {
  const auto it = std::find_if(inbox_.begin(), inbox_.end(),
                               [&](const Message& m) { return m.from == from.value; });
  if (it == inbox_.end()) return false;
  const Message message = std::move(*it);
  inbox_.erase(it);
  if (message.bare != (round_->message_bytes() != 0)) {
    fail(Status{
        Code::Internal,
        fmt::format("Rank {} is in {} while rank {} is in {}: they are not at the same point "
                    "of the program.",
                    from.value, message.bare ? "a vote" : "an exchange", rank_.value,
                    message.bare ? "an exchange" : "a vote")});
    return false;
  }
  swap_sent_ = false;
  round_->received(message.body);
  return true;
}

void VirtualNetwork::Port::send(Rank to) {
  const std::span<const std::byte> body = round_->outgoing();
  network_.post_message(rank_, to,
                        {rank_.value, round_->message_bytes() != 0, {body.begin(), body.end()}});
}

void VirtualNetwork::Port::advance() {
  if (network_.frozen(*this)) return;
  while (round_ != nullptr) {
    const Round::Want want = round_->want();
    switch (want.need) {
      case Round::Need::Done:
        round_ = nullptr;
        return end();
      case Round::Need::Send:
        send(want.peer);
        round_->sent();
        break;
      case Round::Need::Swap:
        if (!swap_sent_) send(want.peer);
        swap_sent_ = true;
        [[fallthrough]];
      case Round::Need::Receive:
        if (!take_message(want.peer)) return;
    }
  }
}

void VirtualNetwork::Port::data_done() {
  if (!collective_) return;
  const CollectiveExtent extent = CollectiveExtent::of(*collective_, size());
  traffic_.data_bytes +=
      static_cast<std::uint64_t>(extent.receive) * dtype_size(collective_->dtype);
  collective_.reset();
  end();
}

void VirtualNetwork::State::post_message(Rank from, Rank to, Message message) {
  record(fmt::format("{} send {}->{} {} bytes", now().count(), from.value, to.value,
                     message.body.size()));
  const std::uint64_t pair =
      static_cast<std::uint64_t>(from.value) << 32 | static_cast<std::uint32_t>(to.value);
  Instant& last = last_arrival_[pair];
  last = std::max(last, now() + port(from).extra_ + delay());
  Event event;
  event.at = last;
  event.kind = Event::Kind::Message;
  event.to = to.value;
  event.message = std::move(message);
  post(std::move(event));
}

void VirtualNetwork::State::post_timer(Port& port) {
  if (port.timer_posted_ && !any_crash_) return;
  port.timer_posted_ = true;
  Event event;
  event.at =
      any_crash_ ? now() + options_.detection : port.started_ + options_.deadline + Duration(1);
  event.at = std::max(event.at, now() + Duration(1));
  event.kind = Event::Kind::Timer;
  event.to = port.rank_.value;
  post(std::move(event));
}

// The last rank to come carries the collective out for all; each then hears of it in its own time.
void VirtualNetwork::State::contribute() {
  if (in_collective_ < options_.size) return;
  std::vector<Collective> all;
  for (const auto& port : ports_) all.push_back(*port->collective_);
  in_collective_ = 0;
  const Result<void> fit = fit_together(all);
  if (fit) carry_out(all);
  for (const auto& port : ports_) {
    if (!fit) {
      in_collective_ = 1;
      port->fail(fit.error());
      continue;
    }
    Event event;
    event.at = now() + delay();
    event.kind = Event::Kind::DataDone;
    event.to = port->rank_.value;
    post(std::move(event));
  }
  in_collective_ = 0;
}

BoardSnapshot VirtualNetwork::State::board() const {
  BoardSnapshot board;
  GroupState world;
  world.members = RankSet::all(options_.size);
  for (const auto& port : ports_) {
    RankState state = port->shown_;
    state.known = true;
    state.pid = port->rank_.value;
    state.lost = crashed(*port);
    state.stopped = stopped(*port);
    world.begun.push_back(state.begun);
    board.ranks.push_back(std::move(state));
  }
  board.groups.push_back(std::move(world));
  return board;
}

void VirtualNetwork::State::look_at(Port& port) {
  port.timer_posted_ = false;
  if (!port.under_way() || frozen(port)) return;
  if (auto verdict = judge(board(), {port.rank_, port.started_}, now(), options_.deadline)) {
    // As in a real job, the first verdict ends it for everybody.
    verdict_ = std::move(*verdict);
    for (const auto& each : ports_)
      if (each->under_way() && !crashed(*each)) each->fail(*verdict_);
    return;
  }
  // Look again when the next rank will have shown no progress for the deadline.
  Instant next = now() + options_.deadline;
  for (const auto& each : ports_)
    if (const Instant due = each->shown_.progress + options_.deadline; due > now())
      next = std::min(next, due);
  Event event;
  event.at = next + Duration(1);
  event.kind = Event::Kind::Timer;
  event.to = port.rank_.value;
  port.timer_posted_ = true;
  post(std::move(event));
}

bool VirtualNetwork::State::step() {
  while (!events_.empty()) {
    std::pop_heap(events_.begin(), events_.end());
    Event event = std::move(events_.back());
    events_.pop_back();
    Port& to = *ports_[static_cast<std::size_t>(event.to)];
    if (event.kind == Event::Kind::Timer && (!to.under_way() || frozen(to))) {
      to.timer_posted_ = false;  // Nobody waits: time need not pass for this.
      continue;
    }
    if (event.at > now()) clock_.advance(event.at - now());
    dispatch(event);
    return true;
  }
  return false;
}

void VirtualNetwork::State::dispatch(Event& event) {
  Port& to = *ports_[static_cast<std::size_t>(event.to)];
  switch (event.kind) {
    case Event::Kind::Message:
      record(fmt::format("{} deliver {}->{}", now().count(), event.message.from, event.to));
      return to.deliver(std::move(event.message));
    case Event::Kind::DataDone:
      record(fmt::format("{} collective done on {}", now().count(), event.to));
      return to.data_done();
    case Event::Kind::Timer:
      record(fmt::format("{} look at {}", now().count(), event.to));
      return look_at(to);
    case Event::Kind::Crash:
      record(fmt::format("{} crash {}", now().count(), event.to));
      any_crash_ = true;
      for (const auto& port : ports_)
        if (port->under_way()) post_timer(*port);
      return;
    case Event::Kind::Resume:
      record(fmt::format("{} resume {}", now().count(), event.to));
      to.advance();
      if (to.under_way()) post_timer(to);
      return;
    case Event::Kind::Call:
      record(fmt::format("{} call", now().count()));
      event.then();
  }
}

VirtualNetwork::VirtualNetwork(const NetworkOptions& options)
    : state_(std::make_unique<State>(options)) {}
VirtualNetwork::~VirtualNetwork() = default;

int VirtualNetwork::size() const { return state_->options_.size; }
Communicator& VirtualNetwork::communicator(Rank rank) { return state_->port(rank); }
const Clock& VirtualNetwork::clock() const { return state_->clock_; }
bool VirtualNetwork::step() { return state_->step(); }
std::vector<Rank> VirtualNetwork::take_ended() { return std::exchange(state_->ended_, {}); }
const std::vector<std::string>& VirtualNetwork::log() const { return state_->log_; }
void VirtualNetwork::slow(Rank rank, Duration extra) { state_->port(rank).extra_ = extra; }
void VirtualNetwork::note(Rank rank, std::string_view event) {
  RankState& shown = state_->port(rank).shown_;
  shown.event = event;
  shown.progress = state_->now();
}
VirtualNetwork::Traffic VirtualNetwork::traffic(Rank rank) const {
  return state_->port(rank).traffic_;
}

void VirtualNetwork::stop(Rank rank, Instant at, Instant until) {
  Port& port = state_->port(rank);
  port.stopped_from_ = at;
  port.stopped_until_ = until;
  if (until == kNever) return;
  Event event;
  event.at = until;
  event.kind = Event::Kind::Resume;
  event.to = rank.value;
  state_->post(std::move(event));
}

void VirtualNetwork::crash(Rank rank, Instant at) {
  state_->port(rank).crashed_at_ = at;
  Event event;
  event.at = at;
  event.kind = Event::Kind::Crash;
  event.to = rank.value;
  state_->post(std::move(event));
}

void VirtualNetwork::call_at(Instant at, std::function<void()> then) {
  Event event;
  event.at = at;
  event.kind = Event::Kind::Call;
  event.then = std::move(then);
  state_->post(std::move(event));
}

}  // namespace lockstep::collectives
