#include <optional>

#include <lockstep/worker/call_driver.h>

namespace lockstep::worker {

/// One round of the call, with the moment when its first message came in.
class CallDriver::TimedRound final : public collectives::Round {
 public:
  using Body =
      std::variant<collectives::VoteRound, collectives::TreeRound, collectives::BroadcastRound>;
  TimedRound(Body body, const Clock& clock)
      : body_(std::move(body)), clock_(clock), start_(clock.now()) {}

  [[nodiscard]] Want want() const override { return round().want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return round().message_bytes(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return round().outgoing(); }
  void sent() override { round().sent(); }
  void received(std::span<const std::byte> message) override {
    if (!first_) first_ = clock_.now();
    round().received(message);
  }

  void report(CallMachine& machine) const {
    if (const auto* vote = std::get_if<collectives::VoteRound>(&body_))
      machine.voted(vote->result());
    else if (const auto* tree = std::get_if<collectives::TreeRound>(&body_))
      machine.joined(tree->result());
    else
      machine.joined(std::get<collectives::BroadcastRound>(body_).result());
  }
  void account(CallTimes& times) const {
    const Instant end = clock_.now();
    if (std::holds_alternative<collectives::VoteRound>(body_)) {
      ++times.votes;
      times.vote_wait += first_.value_or(start_) - start_;
      times.vote_wire += end - first_.value_or(start_);
    } else {
      ++times.exchanges;
      times.exchange += end - start_;
    }
  }

 private:
  Round& round() {
    return std::visit([](auto& body) -> Round& { return body; }, body_);
  }
  [[nodiscard]] const Round& round() const {
    return std::visit([](const auto& body) -> const Round& { return body; }, body_);
  }
  Body body_;
  const Clock& clock_;
  Instant start_;
  std::optional<Instant> first_;
};

CallTimes& CallTimes::operator+=(const CallTimes& other) {
  votes += other.votes;
  exchanges += other.exchanges;
  vote_wait += other.vote_wait;
  vote_wire += other.vote_wire;
  exchange += other.exchange;
  trace += other.trace;
  compile += other.compile;
  return *this;
}

CallDriver::CallDriver(collectives::Communicator& group, CallMachine& machine, const CallHost& host,
                       const Clock& clock)
    : group_(group), machine_(machine), host_(host), clock_(clock) {}

CallDriver::~CallDriver() = default;

bool CallDriver::poll() {
  for (;;) {
    if (!round_ && !advance()) return true;
    const Result<bool> done = group_.poll();
    if (done && !*done) return false;
    if (done) {
      end_round();
    } else {
      round_.reset();
      machine_.failed(done.error());
    }
  }
}

const CallOutcome& CallDriver::run() {
  while (!poll()) {
    const Result<void> waited = group_.wait();
    if (waited) continue;
    round_.reset();
    machine_.failed(waited.error());
  }
  return outcome();
}

const CallOutcome& CallDriver::outcome() const {
  return std::get<action::Finish>(machine_.next()).outcome;
}

bool CallDriver::advance() {
  for (;;) {
    const Action& action = machine_.next();
    if (host_.watch) host_.watch(action);
    const Instant start = clock_.now();
    if (const auto* trace = std::get_if<action::Trace>(&action)) {
      TraceReport report = host_.trace(*trace->decision);
      times_.trace += clock_.now() - start;
      machine_.traced(std::move(report));
    } else if (const auto* explain = std::get_if<action::Explain>(&action)) {
      machine_.explained(host_.explain ? host_.explain(explain->node) : std::string());
    } else if (std::holds_alternative<action::Compile>(action)) {
      std::optional<Status> failure = host_.compile();
      times_.compile += clock_.now() - start;
      machine_.compiled(std::move(failure));
    } else {
      return begin_round(action);
    }
  }
}

bool CallDriver::begin_round(const Action& action) {
  using namespace collectives;
  const Rank self = group_.rank();
  const int size = group_.size();
  std::optional<TimedRound::Body> body;
  if (const auto* vote = std::get_if<action::Vote>(&action))
    body.emplace(std::in_place_type<VoteRound>, self, size, vote->mine, vote->combine);
  else if (const auto* exchange = std::get_if<action::Exchange>(&action))
    body.emplace(std::in_place_type<TreeRound>, self, size, exchange->mine, exchange->join);
  else if (const auto* broadcast = std::get_if<action::Broadcast>(&action))
    body.emplace(std::in_place_type<BroadcastRound>, self, size, broadcast->root, broadcast->mine);
  if (!body) return false;
  round_ = std::make_unique<TimedRound>(std::move(*body), clock_);
  group_.start(*round_);
  return true;
}

void CallDriver::end_round() {
  round_->account(times_);
  const std::unique_ptr<TimedRound> ended = std::move(round_);
  ended->report(machine_);
}

}  // namespace lockstep::worker
