#include <algorithm>
#include <utility>

#include <lockstep/collectives/simulated_events.h>

namespace lockstep::collectives {
namespace {

bool later(const SimulatedEvent& a, const SimulatedEvent& b) {
  return a.at != b.at ? a.at > b.at : a.serial > b.serial;
}

}  // namespace

void SimulatedEvents::post(SimulatedEvent event) {
  event.serial = serial_++;
  heap_.push_back(std::move(event));
  std::push_heap(heap_.begin(), heap_.end(), later);
}

SimulatedEvent SimulatedEvents::take() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  SimulatedEvent event = std::move(heap_.back());
  heap_.pop_back();
  return event;
}

}  // namespace lockstep::collectives
