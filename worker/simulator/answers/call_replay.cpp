#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/files/saved/start_entries.h>
#include <lockstep/worker/simulator/answers/call_replay.h>

namespace lockstep::worker::simulator {
namespace {

using EventKind = RecordedEvent::Kind;

const RecordedEvent* next_event(const RecordedCall& call, std::size_t cursor) {
  return cursor < call.events.size() ? &call.events[cursor] : nullptr;
}

bool is_error_end(const RecordedEvent& event) {
  return event.kind == EventKind::Action && event.text.starts_with("finish error ");
}

/// Returns the part of an action that can be compared if the record has another version of columns.
/// Leaves out payloads, and the digest of the stored state (two words of a call's first vote).
std::string without_columns(std::string text, bool first) {
  constexpr std::size_t kWord = 17, kState = 9 + 3 * kWord;  // after "vote and "
  if (text.starts_with("exchange ")) return "exchange";
  if (first && text.size() > kState + 2 * kWord) text.erase(kState, 2 * kWord);
  return text;
}

}  // namespace

CallReplay::CallReplay(std::vector<Member> members, const DecisionConfig& config,
                       FoldedRounds& rounds, KnownTraces& traces)
    : rounds_(rounds), traces_(traces) {
  const int size = static_cast<int>(members.size());
  for (Member& member : members) {
    const Rank self{static_cast<std::int32_t>(seats_.size())};
    std::unique_ptr<CallMachine> machine;
    Seat seat{.member = member};
    if (member.call != nullptr) {
      const RecordedCall& call = *member.call;
      CodeCache& frame = (*member.frames)[{call.key.group, call.frame}];
      frame.name = call.key.frame;
      if (call.stored) frame.adopt(*call.stored);
      if (call.entries) start_from(frame, *call.entries);
      RankStatus rank_status = call.rank_status;
      rank_status.speaks_for = RankSet::of(member.rank);  // rank tables hold the job's ranks
      machine =
          std::make_unique<CallMachine>(self, size, call.own_config.value_or(config), call.key,
                                        frame, call.observation, std::move(rank_status));
      seat.state = State::Running;
      seat.one_graph = call.key.consistency.value_or(
                           call.own_config.value_or(config).consistency) == Consistency::SameGraph;
    }
    machines_.push_back(std::move(machine));
    seats_.push_back(std::move(seat));
  }
}

Result<std::optional<Difference>> CallReplay::run() {
  for (;;) {
    for (std::size_t i = 0; i < seats_.size(); ++i)
      while (seats_[i].state == State::Running && !error_ && !difference_) advance(i);
    if (!error_ && !difference_ && std::any_of(seats_.begin(), seats_.end(), [](const Seat& seat) {
          return seat.state == State::AtRound;
        }))
      if (auto done = round(); !done) return done.error();
    if (error_) return *error_;
    if (difference_ || std::none_of(seats_.begin(), seats_.end(),
                                    [](const Seat& seat) { return seat.state == State::Running; }))
      return difference_;
  }
}

std::optional<CallOutcome> CallReplay::outcome(std::size_t member) const {
  if (seats_[member].state != State::Done) return std::nullopt;
  return std::get<action::Finish>(machines_[member]->next()).outcome;
}

// Compares the machine's next action with the record, and answers it unless it is a round.
void CallReplay::advance(std::size_t i) {
  Seat& seat = seats_[i];
  const RecordedCall& call = *seat.member.call;
  const Action& action = machines_[i]->next();
  const RecordedEvent* event = next_event(call, seat.cursor);
  std::string text = action_text(action);
  if (event == nullptr) {
    if (call.outcome) return differ(seat, call.line, "nothing more in this call", std::move(text));
    seat.state = State::Lost;
    return;
  }
  if (event->kind != EventKind::Action)
    return contradict(seat, event->line, "an action is expected here");
  const bool first = seat.cursor == 0;
  if (event->text != text && (seat.member.record->header.columns == kColumnsVersion ||
                              without_columns(event->text, first) != without_columns(text, first)))
    return differ(seat, event->line, event->text, std::move(text));
  ++seat.cursor;
  if (std::holds_alternative<action::Finish>(action)) {
    seat.state = State::Done;
    if (const auto* more = next_event(call, seat.cursor))
      contradict(seat, more->line, "the call has ended before this");
    return;
  }
  if (std::holds_alternative<action::Trace>(action) ||
      std::holds_alternative<action::Explain>(action) ||
      std::holds_alternative<action::Compile>(action))
    return feed(i, action);
  seat.state = State::AtRound;
}

void CallReplay::feed(std::size_t i, const Action& action) {
  Seat& seat = seats_[i];
  const RecordedCall& call = *seat.member.call;
  const RecordedEvent* event = next_event(call, seat.cursor);
  if (event == nullptr) {
    if (call.outcome)
      return contradict(seat, call.line, "what this call's last action came to is missing");
    seat.state = State::Lost;
    return;
  }
  // A collective round within the trace failed, and its error ended the call.
  if (is_error_end(*event) && call.outcome && call.outcome->error)
    return machines_[i]->failed(*call.outcome->error);
  ++seat.cursor;
  if (const auto* trace = std::get_if<action::Trace>(&action);
      trace != nullptr && event->kind == EventKind::Trace) {
    if (i == 0 && seat.one_graph) traces_.add(call.frame, *trace->decision, event->trace);
    machines_[i]->traced(event->trace);
  } else if (std::holds_alternative<action::Explain>(action) && event->kind == EventKind::Explain)
    machines_[i]->explained(event->text);
  else if (std::holds_alternative<action::Compile>(action) && event->kind == EventKind::Compile)
    machines_[i]->compiled(event->failure);
  else
    contradict(seat, event->line, "this does not answer the action before it");
}

bool CallReplay::gave_up(const Seat& seat, bool all_there) const {
  const RecordedCall& call = *seat.member.call;
  const RecordedEvent* event = next_event(call, seat.cursor);
  if (event == nullptr || !is_error_end(*event) || !call.outcome || !call.outcome->error)
    return false;
  const Code code = call.outcome->error->code;
  return code == Code::Stuck || code == Code::RankLost || !all_there;
}

// The record shows how each rank left the round: with its result, with an error of its transport,
// or not at all.
Result<void> CallReplay::round() {
  const bool all_there = std::all_of(seats_.begin(), seats_.end(),
                                     [](const Seat& seat) { return seat.state == State::AtRound; });
  std::optional<RoundResult> result;
  if (all_there) result = fold_round(rounds_, machines_);
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (seat.state != State::AtRound) continue;
    const RecordedEvent* event = next_event(*seat.member.call, seat.cursor);
    seat.state = event == nullptr && !seat.member.call->outcome ? State::Lost : State::Running;
    if (seat.state == State::Lost) continue;
    if (gave_up(seat, result.has_value()))
      machines_[i]->failed(*seat.member.call->outcome->error);
    else if (result)
      answer(*machines_[i], *result);
    else
      stand_alone(seat, event == nullptr ? seat.member.call->line : event->line);
  }
  return {};
}

void CallReplay::differ(const Seat& seat, int line, std::string recorded, std::string replayed) {
  if (difference_) return;
  difference_ = Difference{.rank = seat.member.rank,
                           .key = seat.member.call->key,
                           .where = fmt::format("{}:{}", seat.member.record->path, line),
                           .recorded = std::move(recorded),
                           .replayed = std::move(replayed)};
}

// Blames a rank whose record ends, not the one that goes on.
void CallReplay::stand_alone(const Seat& seat, int line) {
  const auto cut = std::find_if(seats_.begin(), seats_.end(), [](const Seat& other) {
    return other.member.call == nullptr || other.state == State::Lost;
  });
  if (cut == seats_.end())
    return contradict(seat, line,
                      "this rank comes out of a round that not all ranks of its group were in");
  const RankRecord& record = *cut->member.record;
  if (!error_)
    error_ =
        bad_input(fmt::format("{}:{}: the record of rank {} is cut here, while rank {} goes on in "
                              "{}; what is left of it cannot be replayed beyond that.",
                              record.path, record.lines + record.truncated, cut->member.rank.value,
                              seat.member.rank.value, seat.member.call->key.text()));
}

void CallReplay::contradict(const Seat& seat, int line, std::string_view what) {
  if (!error_) error_ = bad_input(fmt::format("{}:{}: {}.", seat.member.record->path, line, what));
}

}  // namespace lockstep::worker::simulator
