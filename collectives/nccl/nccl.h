// Collectives between NVIDIA GPUs through NCCL. Its library is loaded when it is asked for, so that
// programs start where there is none; built without NCCL (LOCKSTEP_WITH_NCCL=OFF, or no nccl.h was
// found) everything here says so. Whoever runs a job on devices calls it.
//
// NCCL refuses two ranks on one GPU: who has such ranks does not come here.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/device_data.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::collectives {

/// Names one communicator, once: made by one of its ranks, told to the others by the agreement.
using NcclId = std::array<char, 128>;

struct NcclOptions {
  int rank = 0;  // in the group
  int size = 1;
  NcclId id{};
  int ordinal = 0;          // of the device, as CUDA counts them
  std::string device_name;  // in errors: "rank 2's CUDA device 0 (sm_90)"
  void* stream = nullptr;   // CUstream of that device; outlives the communicator
  /// Shows waits for other ranks; null: nobody is told of them. The communicator's operations are
  /// counted in `board_entry`, an entry of Board::entry() for this data plane alone.
  Watch* watch = nullptr;
  int board_entry = -1;
  /// How long one wait may last, beginning and end of the communicator included. Longer than that
  /// of the watch, which can say who is missing.
  Duration deadline = std::chrono::minutes(10);
  /// Called again and again while it waits: moves the control rounds of the same thread. May call
  /// abort(), once connected. Empty: nothing.
  std::function<void()> poke;
  /// Called again and again while the communicator begins; true: a rank on which it cannot begin
  /// has told the others, and this one gives up (Gone). Does not wait long, and arms the watch
  /// where it waits, which the beginning itself then does not. Empty: only the deadline ends it.
  std::function<bool()> give_up;
};

/// "NCCL 2.28.9". Errors: Environment (no library, built without NCCL).
[[nodiscard]] Result<std::string> nccl_name(Rank rank);

/// A new id, on one rank per communicator. Errors: Environment (no library, no network interface).
[[nodiscard]] Result<NcclId> nccl_unique_id(Rank rank);

/// Waits until all ranks of the group have come. The device's primary context is current on this
/// thread, now and at every later call. Destroying it waits, where anything was started, for what
/// is on the stream and for the ranks of this host to destroy theirs, until the deadline at most;
/// recordings that hold its collectives are destroyed before it.
/// Errors: those of DeviceData::start(), with call, rank and device; nothing is left then.
[[nodiscard]] Result<std::unique_ptr<DeviceData>> connect_nccl(NcclOptions options);

}  // namespace lockstep::collectives
