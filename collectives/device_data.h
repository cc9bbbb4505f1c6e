// The data plane of a group whose tensors lie on devices: the collectives of communicator.h on
// memory of a device, in the order of one of its streams. Control rounds stay with the Communicator
// and never queue behind these collectives. Implemented by NCCL (nccl.h).
#pragma once

#include <string>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// One group as seen from one of its ranks. Used by one thread. A failure is final: it ends the
/// work under way, so that no wait for the stream lasts for ever, and the output of this work is
/// undefined.
class DeviceData {
 public:
  virtual ~DeviceData() = default;

  /// "NCCL 2.28.9"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Appends a collective to the stream and returns before the collective is done. `send` and
  /// `receive` are addresses on the device. They must stay valid until the stream has passed the
  /// collective, the counts only until start() returns. The first collectives between two devices
  /// may wait for the other rank to start them. All ranks start the same collectives in the same
  /// order, including collectives without elements. Errors: BadInput (as check(), or the backend
  /// cannot do it; nothing was started), Stuck (a peer did not start before the deadline),
  /// RankLost, Environment, Internal.
  [[nodiscard]] virtual Result<void> start(const Collective& collective) = 0;
  /// Returns the failure so far, if any, including a failure of work on the stream. Never waits for
  /// a peer. Errors: those of start().
  [[nodiscard]] virtual Result<void> poll() = 0;
  /// Ends work under way, whatever the other ranks do; every later call fails (with an earlier
  /// failure, else with Gone).
  virtual void abort() = 0;
};

}  // namespace lockstep::collectives
