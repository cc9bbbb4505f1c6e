// An exchange as one writes it with NCCL by hand, for gpu_bench to compare the data plane with: a
// communicator of its own, and a send and a receive in one group. Built without NCCL
// (gpu_exchange_missing.cpp) there is none, and open says so.
#pragma once

#include <memory>

#include <lockstep/worker/compile/device/device.h>

namespace lockstep::bench {

/// Of a rank that is alone on its GPU: all that it sends it receives. One thread.
class BareExchange {
 public:
  virtual ~BareExchange() = default;
  /// On the device's stream, which outlives it. Errors: Environment.
  [[nodiscard]] static Result<std::unique_ptr<BareExchange>> open(worker::Device& device);
  /// Starts the exchange of so many f32.
  virtual Result<void> start(worker::DeviceAddress send, worker::DeviceAddress receive,
                             std::size_t elements) = 0;
};

}  // namespace lockstep::bench
