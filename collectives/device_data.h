// Data collectives on the memory of a device, carried out on one of its streams. Beside a
// Communicator of the same ranks, which has their control rounds and what stays on the host.
#pragma once

#include <string>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// One group of ranks as seen from one of them. One thread. Every error is one sentence that names
/// the call, the rank and the device.
class DeviceData {
 public:
  virtual ~DeviceData() = default;
  /// "NCCL 2.28.3"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Puts the collective behind what the stream has to do; `send` and `receive` are memory of the
  /// device, which stays until it is done. Errors: BadInput where it makes no sense (check()),
  /// Environment.
  [[nodiscard]] virtual Result<void> start(const Collective& collective) = 0;
  /// What has gone wrong since. Never waits.
  [[nodiscard]] virtual Result<void> poll() = 0;
  /// What is under way ends, and nothing can be started any more.
  virtual void abort() = 0;
};

}  // namespace lockstep::collectives
