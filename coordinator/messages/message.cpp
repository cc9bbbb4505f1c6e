#include <algorithm>
#include <array>
#include <utility>

#include <lockstep/collectives/wire/fields.h>
#include <lockstep/coordinator/messages/message.h>

namespace lockstep::coordinator {
namespace {

/// Longest message of a refusal, a verdict or an Ending, in bytes.
constexpr std::size_t kSentenceBytes = 4096;

/// The type of each alternative of Message, in its order.
constexpr std::array kTypes = {
    MessageType::Join,       MessageType::Slot,          MessageType::Call,
    MessageType::GraphText,  MessageType::Configuration, MessageType::StatusRequest,
    MessageType::Ending,     MessageType::Joined,        MessageType::Refused,
    MessageType::StatusPart, MessageType::GraphWanted,   MessageType::Verdict,
    MessageType::Noted};
static_assert(kTypes.size() == std::variant_size_v<Message>);

void fingerprint(auto& visit, auto& x) {
  visit.number(x.high);
  visit.number(x.low);
}

}  // namespace

using collectives::Of;

void fields(auto& visit, Of<Join> auto& join) {
  auto& identity = join.identity;
  visit.line(identity.job, kJobBytes);
  visit.number(identity.rank.value);
  visit.number(identity.size);
  visit.number(identity.incarnation);
  visit.line(identity.host, kHostBytes);
  visit.number(identity.host_id);
  visit.number(identity.pid);
  visit.line(identity.build, kBuildBytes);
  visit.span(identity.deadline);
}

void fields(auto& visit, Of<GroupCount> auto& count) {
  visit.number(count.group);
  visit.number(count.begun);
}

void fields(auto& visit, Of<CallCounters> auto& counters) {
  for (auto* count : {&counters.reused, &counters.compiled, &counters.fallbacks, &counters.errors,
                      &counters.votes, &counters.exchanges})
    visit.number(*count);
  for (auto* time : {&counters.waited, &counters.wire, &counters.trace, &counters.compile})
    visit.span(*time);
  for (auto* number : counters.rounds.numbers()) visit.number(*number);
}

void fields(auto& visit, Of<SlotReport> auto& report) {
  visit.flag(report.waiting);
  visit.flag(report.finished);
  visit.kind(report.phase, Phase::Finishing);
  visit.kind(report.operation, OperationKind::Collective);
  visit.number(report.begun);
  visit.number(report.group);
  visit.number(report.ordinal);
  visit.line(report.group_name, kNameBytes);
  visit.line(report.event, kNoteBytes);
  visit.span(report.since_progress);
  visit.span(report.lease_left);
  visit.number(report.looks);
  visit.number(report.looks_waiting);
  visit.list(report.groups, kMostGroups, 16, collectives::kStruct);
  fields(visit, report.counters);
}

void fields(auto& visit, Of<CallEvent> auto& event) {
  visit.line(event.frame, kNameBytes);
  visit.line(event.group, kNameBytes);
  visit.number(event.epoch);
  visit.number(event.call);
  visit.kind(event.outcome, CallEvent::Outcome::Error);
  visit.kind(event.code, Code::Internal);
  visit.number(event.entry);
  visit.number(event.attempts);
  fingerprint(visit, event.graph);
  visit.number(event.nodes);
  visit.lines(event.reason, kReasonBytes);
  visit.line(event.decisions, kDecisionsBytes);
  for (auto* time : {&event.waited, &event.exchange, &event.trace, &event.compile})
    visit.span(*time);
}

void fields(auto& visit, Of<GraphText> auto& graph) {
  fingerprint(visit, graph.graph);
  visit.lines(graph.text, kGraphTextBytes);
}

void fields(auto& visit, Of<Configuration> auto& configuration) {
  visit.lines(configuration.text, kConfigurationBytes);
}

void fields(auto& visit, Of<StatusRequest> auto& request) { visit.flag(request.every_rank); }

void fields(auto& visit, Of<Ending> auto& ending) {
  visit.kind(ending.code, Code::Internal);
  visit.lines(ending.message, kSentenceBytes);
}

void fields(auto& /*visit*/, Of<Joined> auto& /*joined*/) {}

void fields(auto& visit, Of<Refused> auto& refused) {
  visit.kind(refused.code, Code::Internal);
  visit.line(refused.message, kSentenceBytes);
}

void fields(auto& visit, Of<StatusPart> auto& part) {
  visit.flag(part.last);
  visit.bytes(part.text, StatusPart::kMostBytes);
}

void fields(auto& visit, Of<GraphWanted> auto& wanted) { fingerprint(visit, wanted.graph); }

void fields(auto& visit, Of<JobVerdict> auto& verdict) {
  visit.kind(verdict.code, Code::Internal);
  visit.lines(verdict.message, kSentenceBytes);
}

void fields(auto& /*visit*/, Of<Noted> auto& /*noted*/) {}

MessageType type_of(const Message& message) { return kTypes[message.index()]; }

Bytes encode(const Message& message) {
  collectives::FieldWriter out;
  collectives::write_alternative(out, message);
  return std::move(out).take();
}

std::optional<Message> decode(const collectives::SealedMessage& sealed) {
  const auto type = std::ranges::find(kTypes, MessageType{sealed.type});
  return collectives::read_alternative<Message>(static_cast<std::size_t>(type - kTypes.begin()),
                                                sealed.payload);
}

}  // namespace lockstep::coordinator
