#include <algorithm>

#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/collectives/nccl_library.h>

namespace lockstep::collectives {
namespace {

/// From the system first, else from where it was when this was configured.
void* open_library(std::string& why) {
  for (const char* name : {"libnccl.so.2", LOCKSTEP_NCCL_PATH}) {
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
    if (why.empty()) why = ::dlerror();
  }
  return nullptr;
}

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

/// One line of it.
std::string said(const char* text) {
  std::string line(text == nullptr ? "" : text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line.empty() ? line : ", NCCL says: " + line;
}

}  // namespace

Result<NcclLibrary> NcclLibrary::load(std::string_view who) {
  std::string why;
  NcclLibrary library;
  void* handle = open_library(why);
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    if (function == nullptr) why = fmt::format("NCCL here is too old: it has no {}", name);
    return function != nullptr;
  };
  if (handle != nullptr && find(library.version, "ncclGetVersion") &&
      find(library.error_string, "ncclGetErrorString") &&
      find(library.last_error, "ncclGetLastError") && find(library.unique_id, "ncclGetUniqueId") &&
      find(library.init_rank, "ncclCommInitRankConfig") &&
      find(library.async_error, "ncclCommGetAsyncError") &&
      find(library.device, "ncclCommCuDevice") && find(library.finalize, "ncclCommFinalize") &&
      find(library.destroy, "ncclCommDestroy") && find(library.abort, "ncclCommAbort") &&
      find(library.all_reduce, "ncclAllReduce") && find(library.all_gather, "ncclAllGather") &&
      find(library.reduce_scatter, "ncclReduceScatter") &&
      find(library.broadcast, "ncclBroadcast") && find(library.send, "ncclSend") &&
      find(library.receive, "ncclRecv") && find(library.group_start, "ncclGroupStart") &&
      find(library.group_end, "ncclGroupEnd"))
    return library;
  return Status{Code::Environment, fmt::format("{} cannot use NCCL: {}", who, why)};
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
