// Collectives between devices that may be under way while kernels run: when kernels have to wait
// for one, what memory must not be used otherwise meanwhile, and how the host waits. Used by the
// device backend.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/collectives/device_data.h>
#include <lockstep/worker/device/device_pool.h>
#include <lockstep/worker/graph/array.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// The collectives of one run that the kernels' stream (Work) does not wait for yet, oldest first.
/// At destruction it waits for all of them, or all have ended. One thread. Host and pool outlive
/// it.
class InFlight {
 public:
  InFlight(std::shared_ptr<Device> device, DevicePool& pool, RunHost& host)
      : device_(std::move(device)), pool_(pool), host_(host) {}
  ~InFlight() { retire(flights_.size()); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Collectives that are started from here on run after all kernels that were started. Errors: the
  /// device's.
  Result<void> order_after_kernels();
  /// Puts a collective on Ranks, after order_after_kernels(). Whatever comes of it, what it reads
  /// and what it writes are in use until the kernels wait for it. Errors: those of
  /// DeviceData::start().
  Result<void> start(collectives::DeviceData& data, const collectives::Collective& collective);
  /// Kernels that are started from here on may use this memory: they run after the collective that
  /// writes it, if one does. Reading what a collective reads needs no wait. Errors: the device's.
  Result<void> wait_for(DeviceAddress memory);
  /// Kernels that are started from here on run after all collectives.
  Result<void> wait_for_all();
  [[nodiscard]] bool empty() const { return flights_.empty(); }

  /// No step needs the value here any more: the memory goes back to the pool, if it is the pool's,
  /// and `array` is let go of, once the work that is started comes after the collectives that use
  /// it.
  void drop(DeviceAddress memory, bool pooled, Array array);

  /// The host waits for all that was started on the device. Neither the driver nor NCCL is asked to
  /// wait: a peer that does not come would never be named. Where no peer is waited for the watch is
  /// not armed: this rank computes, as the host does. Errors: the device's, and what fails in
  /// flight.
  Result<void> wait();

 private:
  struct Held {
    DeviceAddress memory{};
    bool pooled = false;
    Array array;
  };
  struct Flight {
    std::optional<DeviceEvent> end;  // none: the device did not make one
    DeviceAddress read{}, written{};
    std::vector<Held> held;
  };
  /// The oldest `count` need no order any more: their events and held memory are given back.
  void retire(std::size_t count);

  std::shared_ptr<Device> device_;
  DevicePool& pool_;
  RunHost& host_;
  std::set<collectives::DeviceData*> used_;
  std::vector<Flight> flights_;
  std::optional<Status> flaw_;  // the event of a collective that the device did not make
};

}  // namespace lockstep::worker
