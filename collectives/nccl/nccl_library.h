// NCCL's functions as this process has found them, and the meaning of its results. Included by
// nccl*.cpp only; the one header that includes nccl.h.
#pragma once

#include <string>
#include <string_view>

#include <nccl.h>

#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// Loaded for the life of the process. Immutable.
struct NcclLibrary {
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommCuDevice) device = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;

  /// Loads the library; errors name `who`. Errors: Environment (no library that fits).
  [[nodiscard]] static Result<NcclLibrary> load(std::string_view who);
  /// "NCCL 2.28.9". Errors: as failure().
  [[nodiscard]] Result<std::string> name(std::string_view who) const;
  /// "ncclSend failed on rank 1's CUDA device 0 (sm_90): unhandled system error (6), NCCL says: …".
  /// RankLost if a peer or the network to it failed, Internal if NCCL refuses the call or reports a
  /// fault of its own, Environment otherwise. `where` is put behind the device.
  [[nodiscard]] Status failure(std::string_view call, std::string_view who, std::string_view where,
                               ncclResult_t result) const;
};

/// True if a nonblocking communicator has accepted the call.
[[nodiscard]] inline bool taken(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

}  // namespace lockstep::collectives
