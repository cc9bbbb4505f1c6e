// The events to come in a simulated network, in the order of virtual time, and the messages under
// way. Used by the simulated backend only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/clock.h>

namespace lockstep::collectives {

class SimulatedPort;

struct SimulatedEvent {
  enum class Kind : std::uint8_t { Message, DataDone, Timer, Crash, Resume, Call };
  Instant at{0};
  std::uint64_t serial = 0;
  SimulatedPort* port = nullptr;  // Message, DataDone, Timer
  /// Message: its number; Crash, Resume: the rank of the job; Call: the number of the function.
  std::uint32_t what = 0;
  Kind kind = Kind::Message;
};

/// A queue of events: the earliest first, events of one instant in the order of posting. If many
/// events are due soon, each of the next kNear nanoseconds has a list of its own, so that neither
/// posting nor taking an event looks at other events. The remaining events are in a heap.
class SimulatedEvents {
 public:
  /// `now`: the present time, before which hardly any event is due.
  void post(SimulatedEvent event, Instant now);
  [[nodiscard]] bool empty() const { return heap_.empty() && near_count_ == 0; }
  /// Requires that the queue is not empty.
  [[nodiscard]] SimulatedEvent take();

 private:
  static constexpr std::size_t kNear = 1 << 15;  // nanoseconds
  static constexpr std::size_t kFew = 64;        // below this number, events go to the heap
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    SimulatedEvent event;
    std::uint32_t next = kNone;
  };
  struct List {
    std::uint32_t first = kNone, last = kNone;
  };
  [[nodiscard]] std::size_t first_near() const;
  SimulatedEvent take_near(std::size_t slot);

  std::vector<SimulatedEvent> heap_;
  std::uint64_t serial_ = 0;
  // Events from base_ on, for kNear nanoseconds; the list of an instant has the index instant %
  // kNear.
  Instant base_{0};
  std::size_t near_count_ = 0;
  std::vector<List> near_;             // empty until there are many events
  std::vector<std::uint64_t> filled_;  // one bit per list
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;
};

/// Messages by number, from sending until they leave the inbox. Reuses memory.
class SimulatedMessages {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Message {
    std::int32_t from = 0;       // rank in the group
    bool bare = false;           // from a round whose messages all have one length
    std::uint32_t next = kNone;  // next message in an inbox, or in the list of unused messages
    std::uint32_t size = 0;
    std::array<std::byte, 64> small;  // the bytes, if they fit, as those of a vote
    Bytes large;                      // the bytes, if they do not fit
  };
  [[nodiscard]] std::uint32_t add(std::int32_t from, bool bare, std::span<const std::byte> body);
  [[nodiscard]] Message& operator[](std::uint32_t number) { return all_[number]; }
  [[nodiscard]] static std::span<const std::byte> body(const Message& message) {
    if (message.size > message.small.size()) return message.large;
    return {message.small.data(), message.size};
  }
  void remove(std::uint32_t number);

 private:
  std::vector<Message> all_;
  std::uint32_t free_ = kNone;
};

/// Functions by number, each called once.
class SimulatedCalls {
 public:
  [[nodiscard]] std::uint32_t add(std::function<void()> then);
  [[nodiscard]] std::function<void()> take(std::uint32_t number);

 private:
  std::vector<std::function<void()>> all_;
  std::vector<std::uint32_t> free_;
};

}  // namespace lockstep::collectives
