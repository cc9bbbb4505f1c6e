// What is still to happen in a simulated network, in the order of virtual time. Used by the
// simulated backend only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/clock.h>

namespace lockstep::collectives {

class SimulatedPort;

/// A message of a round. Ranks are those of the group.
struct SimulatedMessage {
  std::int32_t from = 0;
  bool bare = false;  // of a round whose messages have one length
  Bytes body;
};

struct SimulatedEvent {
  enum class Kind : std::uint8_t { Message, DataDone, Timer, Crash, Resume, Call };
  Instant at{0};
  std::uint64_t serial = 0;
  Kind kind = Kind::Message;
  SimulatedPort* port = nullptr;  // Message, DataDone, Timer
  std::int32_t rank = 0;          // Crash, Resume: of the job
  SimulatedMessage message;
  std::function<void()> then;  // Call
};

/// A queue of events: the earliest first, those of one instant in the order of posting.
class SimulatedEvents {
 public:
  void post(SimulatedEvent event);
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  /// Requires that there is one.
  [[nodiscard]] SimulatedEvent take();

 private:
  std::vector<SimulatedEvent> heap_;
  std::uint64_t serial_ = 0;
};

}  // namespace lockstep::collectives
