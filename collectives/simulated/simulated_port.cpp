#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/simulated/simulated_network.h>
#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives {

void SimulatedPort::begin(OperationKind kind) {
  operation_ = kind;
  ++group_.state.begun[static_cast<std::size_t>(of_job_.value)];
  ++network_.rank(of_job_).shown.begun;
  started_ = network_.now();
  show();
  network_.moved(network_.rank(of_job_));
}

void SimulatedPort::show() {
  RankState& shown = network_.rank(of_job_).shown;
  shown.group = group_.state.id;
  shown.ordinal = group_.state.begun[static_cast<std::size_t>(of_job_.value)];
  shown.operation = operation_;
  shown.waiting = true;
}

// Called at the end of the round or of the collective; the other may still be under way.
void SimulatedPort::end() {
  SimulatedRank& rank = network_.rank(of_job_);
  rank.shown.waiting = false;
  network_.moved(rank);
  for (SimulatedPort* port : rank.ports)
    if (port->under_way()) port->show();
  network_.ended(of_job_);
}

void SimulatedPort::fail(Status status) {
  network_.record(fmt::format("{} rank {} fails: {}", network_.now().count(), of_job_.value,
                              code_name(status.code)));
  if (collective_ && group_.in_collective > 0) --group_.in_collective;
  failure_ = std::move(status);
  round_ = nullptr;
  collective_.reset();
  end();
}

void SimulatedPort::start(Round& round) {
  if (!failure_) failure_ = network_.verdict();
  if (failure_ || network_.crashed(of_job_)) return;
  begin(round.message_bytes() != 0 ? OperationKind::Vote : OperationKind::Exchange);
  round_ = &round;
  advance();
  if (under_way()) network_.post_timer(*this);
}

Result<void> SimulatedPort::start(const Collective& collective) {
  if (!failure_) failure_ = network_.verdict();
  if (failure_) return *failure_;
  if (auto ok = check(collective, size()); !ok) return ok;
  if (network_.crashed(of_job_)) return {};
  begin(static_cast<OperationKind>(static_cast<int>(OperationKind::AllToAll) +
                                   static_cast<int>(collective.kind)));
  network_.rank(of_job_).shown.event = collective.label;
  collective_ = collective;
  ++group_.in_collective;
  network_.contribute(group_);
  if (under_way()) network_.post_timer(*this);
  return {};
}

Result<bool> SimulatedPort::poll() {
  if (failure_) return *failure_;
  return !under_way() && !network_.crashed(of_job_);
}

Result<void> SimulatedPort::run(const Collective& collective) {
  if (auto started = start(collective); !started) return started;
  return wait_until([this] { return !collective_; });
}

Result<void> SimulatedPort::wait() {
  return wait_until([this] { return !under_way(); });
}

Result<void> SimulatedPort::wait_until(const std::function<bool()>& over) {
  for (;;) {
    if (failure_) return *failure_;
    if (over() && !network_.crashed(of_job_)) return {};
    if (network_.step()) continue;
    const RankState& shown = network_.rank(of_job_).shown;
    return Status{
        Code::Stuck,
        fmt::format("Rank {} waits in {} {} and nothing in the simulated network can end it.",
                    of_job_.value, operation_name(shown.operation), shown.ordinal),
        "", last_seen(network_.board(), network_.now())};
  }
}

void SimulatedPort::deliver(std::uint32_t message) {
  SimulatedMessages& messages = network_.messages();
  VirtualNetwork::Traffic& traffic = network_.rank(of_job_).traffic;
  ++traffic.messages;
  traffic.bytes += messages[message].size;
  (inbox_last_ == SimulatedMessages::kNone ? inbox_first_ : messages[inbox_last_].next) = message;
  inbox_last_ = message;
  advance();
}

bool SimulatedPort::take_message(Rank from) {
  SimulatedMessages& messages = network_.messages();
  std::uint32_t before = SimulatedMessages::kNone, number = inbox_first_;
  while (number != SimulatedMessages::kNone && messages[number].from != from.value)
    number = messages[before = number].next;
  if (number == SimulatedMessages::kNone) return false;
  const SimulatedMessages::Message& message = messages[number];
  (before == SimulatedMessages::kNone ? inbox_first_ : messages[before].next) = message.next;
  if (inbox_last_ == number) inbox_last_ = before;
  const bool bare = message.bare;
  if (bare != (round_->message_bytes() != 0)) {
    messages.remove(number);
    fail(internal_error(
        fmt::format("Rank {} is in {} while rank {} is in {}: they are not at the same point "
                    "of the program.",
                    from.value, bare ? "a vote" : "an exchange", rank_.value,
                    bare ? "an exchange" : "a vote")));
    return false;
  }
  swap_sent_ = false;
  round_->received(SimulatedMessages::body(message));
  messages.remove(number);
  return true;
}

void SimulatedPort::send(Rank to) {
  network_.post_message(*this, to, round_->message_bytes() != 0, round_->outgoing());
}

Instant SimulatedPort::arrival(Rank peer, Instant at) {
  for (std::size_t i = 0; i < on_the_way_.size();) {
    auto& [to, arrives] = on_the_way_[i];
    if (to == peer) return arrives = std::max(arrives, at);
    // Forgets messages that have arrived: they can no longer be overtaken.
    if (arrives > network_.now()) {
      ++i;
      continue;
    }
    on_the_way_[i] = on_the_way_.back();
    on_the_way_.pop_back();
  }
  on_the_way_.emplace_back(peer, at);
  return at;
}

void SimulatedPort::advance() {
  if (network_.frozen(of_job_)) return;
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

void SimulatedPort::data_done() {
  if (!collective_) return;
  const CollectiveExtent extent = CollectiveExtent::of(*collective_, size());
  network_.rank(of_job_).traffic.data_bytes +=
      static_cast<std::uint64_t>(extent.receive) * dtype_size(collective_->dtype);
  collective_.reset();
  end();
}

}  // namespace lockstep::collectives
