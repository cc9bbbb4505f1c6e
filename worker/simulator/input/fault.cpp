
#include <fmt/format.h>

#include <lockstep/worker/simulator/input/fault.h>

namespace lockstep::worker::simulator {
namespace {

std::string seconds(Duration time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

}  // namespace

std::string fault_text(const Fault& fault) {
  std::string text(fault_name(fault.kind));
  if (fault.rejected) text += " (text rejected)";
  if (fault.kind == Fault::Kind::Late) text += fmt::format(" by {}", seconds(fault.delay));
  if (fault.kind == Fault::Kind::Slow) text += fmt::format(" by {} a step", seconds(fault.delay));
  if (fault.call) text += fmt::format(" at call {}", *fault.call);
  if (fault.at) text += fmt::format(" at {}", seconds(*fault.at));
  if (fault.lasts) text += fmt::format(" for {}", seconds(*fault.lasts));
  return text;
}

}  // namespace lockstep::worker::simulator
