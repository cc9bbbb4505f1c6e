#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/action.h>

namespace lockstep::worker {
namespace {

std::string payload_text(const Bytes& payload) {
  return fmt::format("{} bytes {}", payload.size(), shapes::fingerprint(payload).text());
}

struct Printer {
  std::string operator()(const action::Vote& a) const {
    std::string out = a.combine == collectives::Combine::And ? "vote and" : "vote min";
    for (const std::uint64_t word : a.mine.words) out += fmt::format(" {:016x}", word);
    return out;
  }
  std::string operator()(const action::TreeJoin& a) const {
    return "exchange " + payload_text(a.mine);
  }
  std::string operator()(const action::Broadcast& a) const {
    return fmt::format("broadcast from {} {}", a.root.value, payload_text(a.mine));
  }
  std::string operator()(const action::Trace& a) const {
    return "trace " + decision_text(*a.decision);
  }
  std::string operator()(const action::Explain& a) const {
    return fmt::format("explain {}", a.node);
  }
  std::string operator()(const action::Compile&) const { return "compile"; }
  std::string operator()(const action::Finish& a) const {
    return "finish " + outcome_text(a.outcome);
  }
};

}  // namespace

std::string action_text(const Action& action) { return std::visit(Printer{}, action); }

std::string outcome_text(const CallOutcome& outcome) {
  switch (outcome.kind) {
    case CallOutcome::Kind::Reused:
      return fmt::format("reused {}", outcome.entry);
    case CallOutcome::Kind::Compiled:
      return fmt::format("compiled {}", outcome.entry);
    case CallOutcome::Kind::Fallback:
      return "fallback";
    case CallOutcome::Kind::Error:
      break;
  }
  return "error " + (outcome.error ? outcome.error->text() : std::string());
}

}  // namespace lockstep::worker
