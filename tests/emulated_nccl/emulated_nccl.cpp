// libnccl.so.2 for tests: the calls that lockstep makes of NCCL, between processes and threads, on
// host memory. Follows nccl.h and NCCL's documented semantics of nonblocking communicators, groups,
// asynchronous errors and aborts, and is strict where NCCL hangs or moves garbage.
//
// EMULATED_NCCL_FAIL=CALL:N[:RANK] fails the Nth such call of a communicator ("launch": its Nth
// launch, on the stream), CALL:1 all of those that have no communicator;
// EMULATED_NCCL_SILENT_RANK=R: rank R never comes to a meeting; EMULATED_NCCL_VERSION=21701: it
// says that it is of that version.
#include <algorithm>
#include <cstdlib>

#include "communicator.h"
#include "meeting.h"
#include <fmt/format.h>

namespace lockstep::emulated {
namespace {

std::mutex live_mutex;  // of live
auto& live = *new std::map<ncclComm_t, std::shared_ptr<Communicator>>;

/// What was asked for between ncclGroupStart and ncclGroupEnd of this thread.
struct Group {
  int depth = 0;
  ncclResult_t failed = ncclSuccess;
  std::shared_ptr<Communicator> communicator;
  void* stream = nullptr;
  std::vector<Call> calls;
};
thread_local Group group;

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  say(text);
  if (group.depth > 0 && group.failed == ncclSuccess) group.failed = result;
  return result;
}

/// Of calls that have no communicator: told for their first one, all of them fail.
bool told_to_fail(const std::string& call) {
  const char* told = std::getenv("EMULATED_NCCL_FAIL");
  return told != nullptr && told == call + ":1";
}

/// Null where it has been destroyed or aborted, which with NCCL is the end of the process.
std::shared_ptr<Communicator> find(ncclComm_t comm) {
  const std::lock_guard lock(live_mutex);
  const auto at = live.find(comm);
  return at == live.end() ? nullptr : at->second;
}

ncclResult_t launch_group() {
  Group taken = std::exchange(group, {});
  if (taken.failed != ncclSuccess) return taken.failed;
  if (taken.calls.empty()) return ncclSuccess;
  if (taken.calls.size() > 1)
    for (const Call& call : taken.calls)
      if (!call.operation.pairwise())
        return refuse(ncclInvalidUsage, "the emulated NCCL groups sends and receives only");
  return taken.communicator->launch(std::move(taken.calls), taken.stream);
}

/// The way of every operation.
ncclResult_t ask(const char* name, ncclComm_t comm, Call call, cudaStream_t stream) {
  const auto communicator = find(comm);
  if (!communicator) return refuse(ncclInvalidArgument, "no such communicator");
  if (communicator->told_to_fail(name)) return refuse(ncclInternalError, "told to fail");
  std::string why;
  if (const auto ready = communicator->ready(why); ready != ncclSuccess) return refuse(ready, why);
  const Operation& asked = call.operation;
  if (type_size(asked.type) == 0 || asked.reduce < 0 || asked.reduce >= ncclNumOps)
    return refuse(ncclInvalidArgument, fmt::format("{}: no such type or operation", name));
  if (asked.peer < 0 || asked.peer >= communicator->size())
    return refuse(ncclInvalidArgument, fmt::format("{}: no rank {}", name, asked.peer));
  if ((call.send_bytes > 0 && call.send == nullptr) ||
      (call.receive_bytes > 0 && call.receive == nullptr))
    return refuse(ncclInvalidArgument, fmt::format("{}: no buffer", name));
  const bool other = group.communicator && group.communicator != communicator;
  if (other || (group.communicator && group.stream != stream))
    return refuse(ncclInvalidUsage,
                  "the emulated NCCL groups calls of one communicator and stream");
  if (asked.count > 0 || asked.pairwise()) {
    group.communicator = communicator;
    group.stream = stream;
    group.calls.push_back(call);
  }
  return group.depth > 0 ? ncclSuccess : launch_group();
}

std::size_t bytes(std::size_t count, ncclDataType_t type) { return count * type_size(type); }

ncclResult_t close_communicator(ncclComm_t comm) {
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(live_mutex);
    const auto at = live.find(comm);
    if (at == live.end()) return refuse(ncclInvalidArgument, "no such communicator");
    communicator = std::move(at->second);
    live.erase(at);
  }
  communicator->end();
  return ncclSuccess;
}

}  // namespace
}  // namespace lockstep::emulated

using namespace lockstep::emulated;

extern "C" {

/// Not NCCL's: waits for what was launched without a stream.
bool emulatedNcclWait(int milliseconds) { return wait_for_launches(milliseconds); }

ncclResult_t ncclGetVersion(int* version) {
  if (told_to_fail("ncclGetVersion")) return refuse(ncclInternalError, "told to fail");
  const char* other = std::getenv("EMULATED_NCCL_VERSION");
  *version = other == nullptr ? NCCL_VERSION_CODE : std::atoi(other);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* kTexts[] = {"no error",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or there was a network error",
                                           "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return said(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (told_to_fail("ncclGetUniqueId")) return refuse(ncclSystemError, "told to fail");
  SocketName name{};
  if (!Meeting::open(name)) return refuse(ncclSystemError, "no socket to meet at");
  *id = {};
  std::copy(name.begin(), name.end(), id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  const CurrentDevice device = current_device();
  if (config == nullptr || config->magic != 0xcafebeef || config->size != sizeof(ncclConfig_t))
    return refuse(ncclInvalidArgument, "the configuration was not initialised");
  if (config->blocking != 0)
    return refuse(ncclInvalidUsage, "the emulated NCCL has nonblocking communicators only");
  if (size < 1 || rank < 0 || rank >= size)
    return refuse(ncclInvalidArgument, fmt::format("Invalid rank requested : {}/{}", rank, size));
  if (!device.current) return refuse(ncclUnhandledCudaError, "no context is current");
  auto made = std::make_shared<Communicator>(
      Greeting{.size = size, .rank = rank, .unit = device.unit}, device.ordinal);
  if (made->told_to_fail("ncclCommInitRankConfig"))
    return refuse(ncclInternalError, "told to fail");
  SocketName name{};
  std::copy_n(id.internal, name.size(), name.begin());
  made->connect(name);
  *comm = reinterpret_cast<ncclComm_t>(made.get());
  const std::lock_guard lock(live_mutex);
  live[*comm] = std::move(made);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const auto communicator = find(comm);
  if (!communicator) return refuse(ncclInvalidArgument, "no such communicator");
  if (communicator->told_to_fail("ncclCommGetAsyncError"))
    return refuse(ncclInternalError, "told to fail");
  *state = communicator->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const auto communicator = find(comm);
  if (!communicator) return refuse(ncclInvalidArgument, "no such communicator");
  if (communicator->told_to_fail("ncclCommCuDevice"))
    return refuse(ncclInternalError, "told to fail");
  *device = communicator->ordinal();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto communicator = find(comm);
  if (!communicator) return refuse(ncclInvalidArgument, "no such communicator");
  if (communicator->told_to_fail("ncclCommFinalize"))
    return refuse(ncclInternalError, "told to fail");
  std::string why;
  if (const auto ready = communicator->ready(why); ready != ncclSuccess) return refuse(ready, why);
  return communicator->finalize();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return close_communicator(comm); }
ncclResult_t ncclCommAbort(ncclComm_t comm) { return close_communicator(comm); }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduce, ncclComm_t comm, cudaStream_t stream) {
  const Operation operation{Kind::AllReduce, type, reduce, 0, count};
  return ask("ncclAllReduce", comm,
             {operation, send, receive, bytes(count, type), bytes(count, type)}, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const auto communicator = find(comm);
  const auto size = static_cast<std::size_t>(communicator ? communicator->size() : 0);
  const Operation operation{Kind::AllGather, type, 0, 0, count};
  return ask("ncclAllGather", comm,
             {operation, send, receive, bytes(count, type), bytes(count, type) * size}, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduce, ncclComm_t comm, cudaStream_t stream) {
  const auto communicator = find(comm);
  const auto size = static_cast<std::size_t>(communicator ? communicator->size() : 0);
  const Operation operation{Kind::ReduceScatter, type, reduce, 0, count};
  return ask("ncclReduceScatter", comm,
             {operation, send, receive, bytes(count, type) * size, bytes(count, type)}, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const auto communicator = find(comm);
  const bool mine = communicator && communicator->rank() == root;
  const Operation operation{Kind::Broadcast, type, 0, root, count};
  return ask("ncclBroadcast", comm,
             {operation, send, receive, mine ? bytes(count, type) : 0, bytes(count, type)}, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const Operation operation{Kind::Send, type, 0, peer, count};
  return ask("ncclSend", comm, {operation, send, nullptr, bytes(count, type), 0}, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Operation operation{Kind::Receive, type, 0, peer, count};
  return ask("ncclRecv", comm, {operation, nullptr, receive, 0, bytes(count, type)}, stream);
}

ncclResult_t ncclGroupStart() {
  if (told_to_fail("ncclGroupStart")) return refuse(ncclInternalError, "told to fail");
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (told_to_fail("ncclGroupEnd")) (void)refuse(ncclInternalError, "told to fail");
  return --group.depth > 0 ? ncclSuccess : launch_group();
}

}  // extern "C"
