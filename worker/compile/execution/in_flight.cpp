#include <chrono>
#include <thread>

#include <lockstep/collectives/watch.h>
#include <lockstep/worker/compile/execution/in_flight.h>

namespace lockstep::worker {
namespace {

DeviceAddress address(const void* at) { return DeviceAddress{reinterpret_cast<std::uint64_t>(at)}; }

Result<void> follow_now(Device& device, DeviceStream which, DeviceStream leader) {
  const auto now = device.mark(leader);
  if (!now) return now.error();
  auto done = device.follow(which, *now);
  device.release(*now);
  return done;
}

}  // namespace

Result<void> InFlight::order_after_kernels() {
  return follow_now(*device_, DeviceStream::Ranks, DeviceStream::Work);
}

Result<void> InFlight::start(collectives::DeviceData& data,
                             const collectives::Collective& collective) {
  used_.insert(&data);
  auto done = data.start(collective);
  // A failure here is reported by the next wait.
  const auto end = device_->mark(DeviceStream::Ranks);
  if (!end && !flaw_) flaw_ = end.error();
  flights_.push_back({end ? std::optional(*end) : std::nullopt,
                      address(collective.send),
                      address(collective.receive),
                      {}});
  return done;
}

Result<void> InFlight::wait_for(DeviceAddress memory) {
  if (flaw_) return *flaw_;
  if (memory == DeviceAddress{}) return {};
  for (std::size_t count = flights_.size(); count > 0; --count) {
    const Flight& flight = flights_[count - 1];
    if (flight.written != memory) continue;
    if (auto done = device_->follow(DeviceStream::Work, *flight.end); !done) return done;
    retire(count);
    return {};
  }
  return {};
}

Result<void> InFlight::wait_for_all() {
  if (flights_.empty()) return {};
  auto done = follow_now(*device_, DeviceStream::Work, DeviceStream::Ranks);
  if (done) retire(flights_.size());
  return done;
}

void InFlight::drop(DeviceAddress memory, bool pooled, Array array) {
  if (memory != DeviceAddress{})
    for (std::size_t i = flights_.size(); i-- > 0;)
      if (flights_[i].read == memory || flights_[i].written == memory) {
        flights_[i].held.push_back({memory, pooled, std::move(array)});
        return;
      }
  if (pooled) pool_.give_back(memory);
}

Result<void> InFlight::wait() {
  const collectives::Watch::Armed armed(used_.empty() ? nullptr : host_.watch());
  for (int turns = 0;; ++turns) {
    auto idle = device_->idle();
    if (!idle) return idle.error();
    for (auto* data : used_)
      if (auto well = data->poll(); !well) return well;
    if (*idle) break;
    host_.poke();
    if (turns > 1000)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    else
      std::this_thread::yield();
  }
  retire(flights_.size());
  if (flaw_) return *flaw_;
  return {};
}

/// A stream is in order, so the oldest collectives end first.
void InFlight::retire(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (flights_[i].end) device_->release(*flights_[i].end);
    for (const Held& held : flights_[i].held)
      if (held.pooled) pool_.give_back(held.memory);
  }
  flights_.erase(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace lockstep::worker
