// The data plane of a group whose tensors lie on devices: the collectives of communicator.h on
// memory of a device, in the order of one of its streams. Control stays with the Communicator,
// which never queues behind them. Implemented by NCCL (nccl.h).
#pragma once

#include <string>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// One group as seen from one of its ranks. One thread. A failure is final: work under way is ended
/// then, so that no wait for the stream lasts for ever, and its output is undefined.
class DeviceData {
 public:
  virtual ~DeviceData() = default;

  /// "NCCL 2.28.9"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Appends a collective to the stream and returns before it is done. `send` and `receive` are
  /// addresses on the device; they stay valid until the stream has passed the collective, the
  /// counts only until this returns. The first ones between two devices may wait for the other rank
  /// to start them. All ranks start the same collectives in the same order, empty ones too. Errors:
  /// BadInput (as check(), and what the backend cannot do; nothing was started), Stuck (a peer did
  /// not start before the deadline), RankLost, Environment, Internal.
  [[nodiscard]] virtual Result<void> start(const Collective& collective) = 0;
  /// Returns the failure so far, if any, also of work on the stream. Never waits for a peer.
  /// Errors: as start().
  [[nodiscard]] virtual Result<void> poll() = 0;
  /// Ends work under way, whatever the other ranks do; every later call fails (Gone, or the failure
  /// before it).
  virtual void abort() = 0;
};

}  // namespace lockstep::collectives
