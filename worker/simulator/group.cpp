#include <lockstep/worker/simulator/group.h>

namespace lockstep::worker::simulator {

bool answer_locally(CallMachine& machine) {
  for (;;) {
    const Action& action = machine.next();
    if (const auto* trace = std::get_if<action::Trace>(&action)) {
      TraceReport report;
      report.graph = trace->decision->digest();
      machine.traced(std::move(report));
    } else if (std::holds_alternative<action::Explain>(action)) {
      machine.explained({});
    } else if (std::holds_alternative<action::Compile>(action)) {
      machine.compiled(std::nullopt);
    } else {
      return !std::holds_alternative<action::Finish>(action);
    }
  }
}

}  // namespace lockstep::worker::simulator
