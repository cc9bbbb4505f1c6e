#include <fmt/format.h>

#include <lockstep/worker/simulator/input/fault.h>

namespace lockstep::worker::simulator {
namespace {

std::string seconds(Duration time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

}  // namespace

std::string fault_text(const Fault& fault) {
  const FaultRow row = row_of(fault.kind);
  std::string text(row.name);
  if (fault.rejected) text += " (text rejected)";
  if (!row.delay.empty()) text += fmt::format(fmt::runtime(row.delay), seconds(fault.delay));
  if (fault.call) text += fmt::format(" at call {}", *fault.call);
  if (fault.at) text += fmt::format(" at {}", seconds(*fault.at));
  if (fault.lasts) text += fmt::format(" for {}", seconds(*fault.lasts));
  return text;
}

}  // namespace lockstep::worker::simulator
