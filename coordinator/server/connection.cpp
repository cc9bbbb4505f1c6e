#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/documents/dump_document.h>
#include <lockstep/coordinator/server/connection.h>

namespace lockstep::coordinator {
namespace {

void append(Bytes& to, const Bytes& bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

}  // namespace

void Connection::obey(const Message& message, Service& service, const About& about, Instant now,
                      Outcome& outcome) {
  if (const auto* join = std::get_if<Join>(&message)) {
    const auto admission = service.join(join->identity, id_, now);
    if (admission) {
      joined_ = true;
      outcome.replaced = admission->replaced;
      return append(outcome.send, session_.seal(Joined{}));
    }
    append(outcome.send, session_.seal(Refused{admission.error().code, admission.error().message}));
    outcome.close = true;
    outcome.why_closed = admission.error().message;
  } else if (const auto* report = std::get_if<SlotReport>(&message); report != nullptr && joined_) {
    service.report(id_, *report, now);
  } else if (const auto* event = std::get_if<CallEvent>(&message); event != nullptr && joined_) {
    if (const auto wanted = service.told(id_, *event, now))
      append(outcome.send, session_.seal(GraphWanted{*wanted}));
  } else if (const auto* graph = std::get_if<GraphText>(&message); graph != nullptr && joined_) {
    service.graph(id_, *graph);
  } else if (const auto* configuration = std::get_if<Configuration>(&message);
             configuration != nullptr && joined_) {
    service.configure(id_, *configuration);
  } else if (const auto* ending = std::get_if<Ending>(&message); ending != nullptr && joined_) {
    service.ending(id_, *ending);
    outcome.ending = true;
  } else if (const auto* asked = std::get_if<StatusRequest>(&message);
             asked != nullptr && !document_) {
    document_ =
        asked->every_rank ? dump_document(service, now) : status_document(service, about, now);
    sent_ = 0;
  } else {
    outcome.close = true;
    outcome.why_closed = refusal_text(Refusal::Order);
  }
}

Connection::Outcome Connection::take(std::span<const std::byte> bytes, Service& service,
                                     const About& about, Instant now) {
  Session::Taken taken = session_.take(bytes);
  Outcome outcome;
  outcome.send = std::move(taken.reply);
  if (taken.refusal) {
    outcome.close = true;
    outcome.refusal = taken.refusal;
    outcome.why_closed = refusal_text(*taken.refusal);
    return outcome;
  }
  for (const Message& message : taken.messages) {
    if (outcome.close) break;
    obey(message, service, about, now, outcome);
  }
  return outcome;
}

Bytes Connection::tell(const Message& message) {
  return joined_ ? session_.seal(message) : Bytes{};
}

Bytes Connection::more() {
  if (!document_) return {};
  const std::string part = document_->substr(sent_, StatusPart::kMostBytes);
  sent_ += part.size();
  const bool last = sent_ == document_->size();
  if (last) document_.reset();
  return session_.seal(StatusPart{last, part});
}

}  // namespace lockstep::coordinator
