// Collectives between NVIDIA GPUs through NCCL. Its library is loaded at first use, so that
// programs start without it. In a build without NCCL (LOCKSTEP_WITH_NCCL=OFF, or no nccl.h was
// found) every function here fails with Environment. Called by jobs on devices.
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

/// The id of one communicator, used once. One rank makes it; the agreement sends it to the others.
using NcclId = std::array<char, 128>;

struct NcclOptions {
  int rank = 0;  // this rank's number in the group
  int size = 1;
  NcclId id{};
  int ordinal = 0;          // number of the device, as CUDA counts
  std::string device_name;  // in errors: "rank 2's CUDA device 0 (sm_90)"
  void* stream = nullptr;   // CUstream of that device; must outlive the communicator
  /// Shows waits for other ranks; null: they are not shown. `board_entry` is an entry of
  /// Board::entry() for this data plane only, in which the communicator's operations are counted.
  Watch* watch = nullptr;
  int board_entry = -1;
  /// Longest wait, including those in which the communicator begins and ends. Must be longer than
  /// the deadline of the watch, which can name the missing ranks.
  Duration deadline = std::chrono::minutes(10);
  /// Called repeatedly during a wait: advances the control rounds of the same thread. May call
  /// abort(), once connected. Empty: not called.
  std::function<void()> poke;
  /// Called repeatedly while the communicator begins. True: some rank has reported that it cannot
  /// begin, and this rank gives up (Gone). The function must not wait long. If it waits, it must
  /// arm the watch itself, which is not armed while the function is set. Empty: only the deadline
  /// ends the wait.
  std::function<bool()> give_up;
};

/// "NCCL 2.28.9". Errors: Environment (there is no library, or this is a build without NCCL).
[[nodiscard]] Result<std::string> nccl_name(Rank rank);

/// A new id; to be made on one rank per communicator. Errors: Environment (no library or no network
/// interface).
[[nodiscard]] Result<NcclId> nccl_unique_id(Rank rank);

/// Waits until all ranks of the group have called this function. The device's primary context must
/// be current on this thread, now and at every later call. If anything was started, the destructor
/// waits for the stream, and for the ranks of this host to destroy their communicators, at most
/// until the deadline. Captured graphs with its collectives must be destroyed before. Errors: those
/// of DeviceData::start(), with call, rank and device; after an error nothing is left behind.
[[nodiscard]] Result<std::unique_ptr<DeviceData>> connect_nccl(NcclOptions options);

}  // namespace lockstep::collectives
