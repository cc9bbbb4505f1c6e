#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/base/cuda_library.h>
#include <lockstep/collectives/nccl/nccl_library.h>

namespace lockstep::collectives {
namespace {

Code code_of(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
      return Code::RankLost;
    case ncclInternalError:
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return Code::Internal;
    default:
      return Code::Environment;
  }
}

/// NCCL's message as one line.
std::string said(const char* text) {
  std::string line(text == nullptr ? "" : text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line.empty() ? line : ", NCCL says: " + line;
}

}  // namespace

Result<NcclLibrary> NcclLibrary::load(std::string_view who) {
  const auto refused = [&](const std::string& why) {
    return environment_error(fmt::format("{} cannot use NCCL: {}", who, why));
  };
  auto opened = CudaLibrary::open(CudaLibrary::Kind::Nccl);
  if (!opened) return refused(opened.error().message);
  CudaLibrary& library = *opened;
  NcclLibrary nccl;
  library.find(nccl.version, "ncclGetVersion");
  library.find(nccl.error_string, "ncclGetErrorString");
  library.find(nccl.last_error, "ncclGetLastError");
  library.find(nccl.unique_id, "ncclGetUniqueId");
  library.find(nccl.init_rank, "ncclCommInitRankConfig");
  library.find(nccl.async_error, "ncclCommGetAsyncError");
  library.find(nccl.device, "ncclCommCuDevice");
  library.find(nccl.finalize, "ncclCommFinalize");
  library.find(nccl.destroy, "ncclCommDestroy");
  library.find(nccl.abort, "ncclCommAbort");
  library.find(nccl.all_reduce, "ncclAllReduce");
  library.find(nccl.all_gather, "ncclAllGather");
  library.find(nccl.reduce_scatter, "ncclReduceScatter");
  library.find(nccl.broadcast, "ncclBroadcast");
  library.find(nccl.send, "ncclSend");
  library.find(nccl.receive, "ncclRecv");
  library.find(nccl.group_start, "ncclGroupStart");
  library.find(nccl.group_end, "ncclGroupEnd");
  if (const std::string flaw = library.flaw(); !flaw.empty()) return refused(flaw);
  return nccl;
}

Result<std::string> NcclLibrary::name(std::string_view who) const {
  int code = 0;
  if (const ncclResult_t result = version(&code); result != ncclSuccess)
    return failure("ncclGetVersion", who, "", result);
  return fmt::format("NCCL {}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

Status NcclLibrary::failure(std::string_view call, std::string_view who, std::string_view where,
                            ncclResult_t result) const {
  return Status{code_of(result),
                fmt::format("{} failed on {}{}: {} ({}){}", call, who, where, error_string(result),
                            static_cast<int>(result), said(last_error(nullptr)))};
}

}  // namespace lockstep::collectives
