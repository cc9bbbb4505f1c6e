#include <lockstep/coordinator/call_event.h>

namespace lockstep::coordinator {

std::string_view outcome_name(CallEvent::Outcome outcome) {
  switch (outcome) {
    case CallEvent::Outcome::Compiled:
      return "compiled";
    case CallEvent::Outcome::Fallback:
      return "fallback";
    case CallEvent::Outcome::Error:
      return "error";
  }
  return "?";
}

std::string_view round_kind_name(RoundKind kind) {
  switch (kind) {
    case RoundKind::Vote:
      return "vote";
    case RoundKind::Exchange:
      return "exchange";
    case RoundKind::Verify:
      return "verify";
    case RoundKind::Commit:
      return "commit";
    case RoundKind::Status:
      return "status";
  }
  return "?";
}

}  // namespace lockstep::coordinator
