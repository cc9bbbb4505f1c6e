// Collectives between devices that may be in flight while kernels run: when kernels have to wait
// for a collective, which memory must not be reused until then, and how the host waits. Used by the
// device backend.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/collectives/device_data.h>
#include <lockstep/worker/compile/device/device_pool.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// The collectives of one run that the kernels' stream (Work) does not wait for yet, oldest first.
/// Requires a call of wait_for_all() or wait() before destruction. Single-threaded. Host and pool
/// outlive it.
class InFlight {
 public:
  InFlight(std::shared_ptr<Device> device, DevicePool& pool, RunHost& host)
      : device_(std::move(device)), pool_(pool), host_(host) {}
  ~InFlight() { retire(flights_.size()); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Orders collectives started from now on after all kernels started so far. Errors: the device's.
  Result<void> order_after_kernels();
  /// Starts a collective on the stream Ranks, after order_after_kernels(). Its operand and result
  /// count as in use until the kernels wait for it, even if it fails. Errors: those of
  /// DeviceData::start().
  Result<void> start(collectives::DeviceData& data, const collectives::Collective& collective);
  /// Orders kernels started from now on after the collective that writes this memory, if one does.
  /// Reading the operand of a collective needs no wait. Errors: the device's.
  Result<void> wait_for(DeviceAddress memory);
  /// Orders kernels started from now on after all collectives.
  Result<void> wait_for_all();
  [[nodiscard]] bool empty() const { return flights_.empty(); }

  /// Releases a value that no step needs any more. Once new work is ordered after the collectives
  /// that use the value, `memory` goes back to the pool if `pooled`, and `array` is released.
  void drop(DeviceAddress memory, bool pooled, Array array);

  /// Makes the host wait for all started work on the device. It polls: a blocking wait in the
  /// driver or in NCCL would never name a missing peer. The watch is armed only if this run has
  /// collectives between devices: without them the device waits for no peer. Errors: the device's,
  /// and those of collectives in flight.
  Result<void> wait();

 private:
  struct Held {
    DeviceAddress memory{};
    bool pooled = false;
    Array array;
  };
  struct Flight {
    std::optional<DeviceEvent> end;  // nullopt: the device could not make the event
    DeviceAddress read{}, written{};
    std::vector<Held> held;
  };
  /// Removes the oldest `count` collectives and gives back their events and held memory.
  void retire(std::size_t count);

  std::shared_ptr<Device> device_;
  DevicePool& pool_;
  RunHost& host_;
  std::set<collectives::DeviceData*> used_;
  std::vector<Flight> flights_;
  std::optional<Status> flaw_;  // the device could not make the event of a collective
};

}  // namespace lockstep::worker
