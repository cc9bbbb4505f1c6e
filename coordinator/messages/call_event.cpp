#include <lockstep/coordinator/messages/call_event.h>

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

}  // namespace lockstep::coordinator
