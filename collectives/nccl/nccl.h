// Collectives between NVIDIA GPUs through NCCL. Its library is loaded at first use, so that
// programs start without it. In a build without NCCL (LOCKSTEP_WITH_NCCL=OFF, or no nccl.h was
// found) every function here returns Environment. Called by jobs on devices.
//
// NCCL refuses two ranks on one GPU: jobs with such ranks do not call these functions.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/device_data.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::collectives {

/// Identifies one communicator, and is used once. One rank makes it; the agreement sends it to the
/// others.
using NcclId = std::array<char, 128>;

struct NcclOptions {
  int rank = 0;  // in the group
  int size = 1;
  NcclId id{};
  int ordinal = 0;          // of the device, as CUDA counts them
  std::string device_name;  // in errors: "rank 2's CUDA device 0 (sm_90)"
  void* stream = nullptr;   // CUstream of that device; outlives the communicator
  /// Shows waits for other ranks; null: they are not shown. The communicator's operations are
  /// counted in `board_entry`, an entry of Board::entry() for this data plane only.
  Watch* watch = nullptr;
  int board_entry = -1;
  /// Longest wait, also at the beginning and end of the communicator. Longer than the deadline of
  /// the watch, which can name the missing ranks.
  Duration deadline = std::chrono::minutes(10);
  /// Called repeatedly during a wait: advances the control rounds of the same thread. May call
  /// abort(), once connected. Empty: not called.
  std::function<void()> poke;
  /// Called repeatedly while the communicator begins. True: a rank that cannot begin has reported
  /// it, and this one gives up (Gone). Must not wait long, and arms the watch if it waits, since
  /// the beginning then does not. Empty: only the deadline ends the beginning.
  std::function<bool()> give_up;
};

/// "NCCL 2.28.9". Errors: Environment (no library, built without NCCL).
[[nodiscard]] Result<std::string> nccl_name(Rank rank);

/// A new id, on one rank per communicator. Errors: Environment (no library, no network interface).
[[nodiscard]] Result<NcclId> nccl_unique_id(Rank rank);

/// Waits until all ranks of the group have called it. The device's primary context is current on
/// this thread, now and at every later call. If anything was started, the destructor waits, until
/// the deadline at most, for the stream and for the ranks of this host to destroy theirs.
/// Recordings with its collectives are destroyed before it.
/// Errors: those of DeviceData::start(), with call, rank and device; nothing is left then.
[[nodiscard]] Result<std::unique_ptr<DeviceData>> connect_nccl(NcclOptions options);

}  // namespace lockstep::collectives
