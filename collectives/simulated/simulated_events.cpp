#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <lockstep/collectives/simulated/simulated_events.h>

namespace lockstep::collectives {
namespace {

bool later(const SimulatedEvent& a, const SimulatedEvent& b) {
  return a.at != b.at ? a.at > b.at : a.serial > b.serial;
}

}  // namespace

void SimulatedEvents::post(SimulatedEvent event, Instant now) {
  event.serial = serial_++;
  if (near_count_ == 0) base_ = now;
  const bool near = event.at >= base_ && event.at - base_ < Duration(kNear);
  if (!near || heap_.size() + near_count_ < kFew) {
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
    return;
  }
  if (near_.empty()) {
    near_.resize(kNear);
    filled_.resize(kNear / 64);
  }
  std::uint32_t node = free_;
  if (node == kNone) {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = nodes_[node].next;
  }
  nodes_[node] = {event, kNone};
  const auto slot = static_cast<std::size_t>(event.at.count()) % kNear;
  List& list = near_[slot];
  (list.first == kNone ? list.first : nodes_[list.last].next) = node;
  list.last = node;
  filled_[slot / 64] |= std::uint64_t{1} << slot % 64;
  ++near_count_;
}

// The list of the earliest instant: the first list that is not empty, from that of base_ on,
// wrapping around.
std::size_t SimulatedEvents::first_near() const {
  const auto start = static_cast<std::size_t>(base_.count()) % kNear;
  std::size_t word = start / 64;
  std::uint64_t bits = filled_[word] & ~std::uint64_t{0} << start % 64;
  while (bits == 0) {
    word = (word + 1) % filled_.size();
    bits = filled_[word];
  }
  return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
}

SimulatedEvent SimulatedEvents::take_near(std::size_t slot) {
  List& list = near_[slot];
  const std::uint32_t node = list.first;
  const SimulatedEvent event = nodes_[node].event;
  list.first = nodes_[node].next;
  if (list.first == kNone) {
    list.last = kNone;
    filled_[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
  }
  nodes_[node].next = free_;
  free_ = node;
  --near_count_;
  base_ = event.at;
  return event;
}

SimulatedEvent SimulatedEvents::take() {
  if (near_count_ > 0) {
    const std::size_t slot = first_near();
    if (heap_.empty() || later(heap_.front(), nodes_[near_[slot].first].event))
      return take_near(slot);
  }
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const SimulatedEvent event = heap_.back();
  heap_.pop_back();
  return event;
}

std::uint32_t SimulatedMessages::add(std::int32_t from, bool bare,
                                     std::span<const std::byte> body) {
  std::uint32_t number = free_;
  if (number == kNone) {
    number = static_cast<std::uint32_t>(all_.size());
    all_.emplace_back();
  } else {
    free_ = all_[number].next;
  }
  Message& message = all_[number];
  message.from = from;
  message.bare = bare;
  message.next = kNone;
  message.size = static_cast<std::uint32_t>(body.size());
  if (body.size() > message.small.size())
    message.large.assign(body.begin(), body.end());
  else if (!body.empty())
    std::memcpy(message.small.data(), body.data(), body.size());
  return number;
}

void SimulatedMessages::remove(std::uint32_t number) {
  Message& message = all_[number];
  if (message.size > message.small.size()) message.large = {};
  message.next = free_;
  free_ = number;
}

std::uint32_t SimulatedCalls::add(std::function<void()> then) {
  if (free_.empty()) {
    all_.push_back(std::move(then));
    return static_cast<std::uint32_t>(all_.size() - 1);
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  all_[number] = std::move(then);
  return number;
}

std::function<void()> SimulatedCalls::take(std::uint32_t number) {
  free_.push_back(number);
  return std::exchange(all_[number], nullptr);
}

}  // namespace lockstep::collectives
