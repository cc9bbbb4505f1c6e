// The data plane of a group whose tensors lie on devices: the collectives of communicator.h on
// memory of a device, in the order of one of its streams. Control stays with the Communicator,
// which never queues behind them. Implemented by NCCL (nccl.h).
#pragma once

#include <string>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// One group as seen from one of its ranks. One thread. What failed once stays failed: the work
/// that was under way is ended then, so that no wait for the stream lasts for ever, and what it was
/// to write is worth nothing.
class DeviceData {
 public:
  virtual ~DeviceData() = default;

  /// "NCCL 2.28.9"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Puts a collective on the stream, behind what is there, and returns before it is done. `send`
  /// and `receive` are addresses on the device; they stay valid until the stream has passed it, the
  /// counts only until this returns. The first ones between two devices may wait for the other rank
  /// to come to them. All ranks start the same collectives in the same order, empty ones too.
  /// Errors: BadInput (as check() says, and what the backend cannot do; nothing was started and all
  /// is as before), Stuck (a peer did not come before the deadline), RankLost, Environment,
  /// Internal.
  [[nodiscard]] virtual Result<void> start(const Collective& collective) = 0;
  /// Whether anything has failed so far, also in what runs on the stream. Never waits for a peer.
  /// Errors: as start().
  [[nodiscard]] virtual Result<void> poll() = 0;
  /// Ends what is under way, whatever the other ranks do; from here on everything is refused (Gone,
  /// or the failure before it).
  virtual void abort() = 0;
};

}  // namespace lockstep::collectives
