// NCCL's functions, as found by this process, and the meaning of their results. Included by
// nccl*.cpp only; the only product header that includes nccl.h.
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

  /// Loads the library. Errors, which name `who`: Environment (no library that fits).
  [[nodiscard]] static Result<NcclLibrary> load(std::string_view who);
  /// "NCCL 2.28.9". Errors: those of failure().
  [[nodiscard]] Result<std::string> name(std::string_view who) const;
  /// "ncclSend failed on rank 1's CUDA device 0 (sm_90): unhandled system error (6), NCCL says: …".
  /// RankLost if a peer or the network to it failed, Internal if NCCL refuses the call or reports a
  /// fault of its own, Environment otherwise. `where` follows the device in the text.
  [[nodiscard]] Status failure(std::string_view call, std::string_view who, std::string_view where,
                               ncclResult_t result) const;
};

/// True if a nonblocking communicator has accepted the call.
[[nodiscard]] inline bool taken(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

}  // namespace lockstep::collectives
