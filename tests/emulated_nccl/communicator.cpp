#include "communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::emulated {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Of the libcuda that this process has loaded; null where it has none, or none with it.
template <class Function>
Function driver_function(const char* name) {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(handle, name));
}

/// Whether the memory is there, as the emulated driver knows it; on no stream it need not be its.
bool there(const void* at, std::size_t bytes) {
  static const auto within =
      driver_function<bool (*)(const void*, std::size_t)>("emulated_cuda_within");
  return bytes == 0 || within == nullptr || within(at, bytes);
}

std::mutex pending_mutex;  // of pending
std::condition_variable pending_changed;
int pending = 0;

void add_pending(int more) {
  const std::lock_guard lock(pending_mutex);
  pending += more;
  pending_changed.notify_all();
}

std::mutex text_mutex;  // of last_text
std::string last_text;

}  // namespace

void say(const std::string& text) {
  const std::lock_guard lock(text_mutex);
  last_text = text;
}

const char* said() {
  thread_local std::string copy;
  const std::lock_guard lock(text_mutex);
  copy = last_text;
  return copy.c_str();
}

bool wait_for_launches(int milliseconds) {
  std::unique_lock lock(pending_mutex);
  return pending_changed.wait_for(lock, std::chrono::milliseconds(milliseconds),
                                  [] { return pending == 0; });
}

CurrentDevice current_device() {
  CurrentDevice out;
  const auto device_of = driver_function<decltype(&cuCtxGetDevice)>("cuCtxGetDevice");
  if (device_of == nullptr) return out;
  out.known = true;
  CUdevice device = 0;
  out.current = device_of(&device) == CUDA_SUCCESS;
  out.ordinal = device;
  CUuuid unit{};
  const auto uuid = driver_function<decltype(&cuDeviceGetUuid)>("cuDeviceGetUuid_v2");
  if (out.current && uuid != nullptr && uuid(&unit, device) == CUDA_SUCCESS)
    std::copy(std::begin(unit.bytes), std::end(unit.bytes), out.unit.begin());
  return out;
}

Communicator::~Communicator() {
  end();
  if (socket_ >= 0) ::close(socket_);
}

void Communicator::connect(const SocketName& name) {
  const std::lock_guard lock(mutex_);
  busy_ = true;
  polls_ = 2;
  if (setting("EMULATED_NCCL_SILENT_RANK") == std::to_string(rank())) return;
  threads_.emplace_back([this, name] {
    const int socket = connect_to(name);
    if (socket < 0) return fail(ncclSystemError, "no rank listens where the unique id says");
    {
      const std::lock_guard guard(mutex_);
      socket_ = socket;
      if (ended_) ::shutdown(socket_, SHUT_RDWR);
    }
    std::optional<Answered> answered;
    if (write(socket, greeting_)) answered = read_answered(socket);
    if (!answered) return fail(ncclRemoteError, "the ranks' meeting has gone");
    if (answered->result != ncclSuccess) return fail(answered->result, answered->text);
    const std::lock_guard guard(mutex_);
    connected_ = true;
  });
}

ncclResult_t Communicator::state() {
  std::function<void()> now;
  {
    const std::lock_guard lock(mutex_);
    if (failed_ != ncclSuccess) return failed_;
    if (!busy_) return ncclSuccess;
    if (!connected_ || --polls_ > 0) return ncclInProgress;
    now = std::exchange(asked_, nullptr);
    busy_ = false;
  }
  // What fails on the stream is for the next look to see.
  if (now) now();
  const std::lock_guard lock(mutex_);
  return busy_ ? ncclInProgress : ncclSuccess;
}

ncclResult_t Communicator::ready(std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failed_ != ncclSuccess) return why = "the communicator has failed", failed_;
  if (busy_) why = "Attempt to use communicator before the previous operation returned ncclSuccess";
  return busy_ ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t Communicator::launch(std::vector<Call> calls, void* stream) {
  // Kept for ever: a recording may do it again at any time.
  static std::mutex kept_mutex;
  static auto& kept = *new std::deque<std::unique_ptr<Launch>>;
  auto made = std::make_unique<Launch>();
  made->communicator = shared_from_this();
  made->calls = std::move(calls);
  made->stream = stream;
  Launch* launch = made.get();
  {
    const std::lock_guard lock(kept_mutex);
    kept.push_back(std::move(made));
  }
  const std::lock_guard lock(mutex_);
  asked_ = [this, launch] { enqueue(*launch); };
  busy_ = true;
  polls_ = 2;
  return ncclInProgress;
}

void Communicator::enqueue(Launch& launch) {
  if (launch.stream == nullptr) {
    add_pending(1);
    const std::lock_guard lock(mutex_);
    ++unfinished_;
    if (queue_.empty() && unfinished_ == 1) threads_.emplace_back([this] { work(); });
    queue_.push_back(&launch);
    return;
  }
  const auto host = driver_function<decltype(&cuLaunchHostFunc)>("cuLaunchHostFunc");
  const auto capturing = driver_function<decltype(&cuStreamIsCapturing)>("cuStreamIsCapturing");
  const auto on = static_cast<CUstream>(launch.stream);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (capturing != nullptr && capturing(on, &status) == CUDA_SUCCESS)
    launch.captured = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!launch.captured) {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
  }
  static const auto touch =
      driver_function<void (*)(void*, const void*, std::size_t, bool)>("emulated_cuda_touch");
  for (const Call& call : launch.calls) {
    if (touch == nullptr) break;
    if (call.send_bytes > 0) touch(on, call.send, call.send_bytes, false);
    if (call.receive_bytes > 0) touch(on, call.receive, call.receive_bytes, true);
  }
  if (host == nullptr || host(on, &Communicator::run, &launch) != CUDA_SUCCESS)
    fail(ncclUnhandledCudaError, "cuLaunchHostFunc failed");
}

/// The thread of launches without a stream; ends when it has none left.
void Communicator::work() {
  for (;;) {
    Launch* next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return;
      next = queue_.front();
    }
    carry_out(*next);
    const std::lock_guard lock(mutex_);
    queue_.pop_front();
    --unfinished_;
    changed_.notify_all();
    add_pending(-1);
    if (queue_.empty()) return;
  }
}

void Communicator::run(void* launch) {
  const Launch& mine = *static_cast<const Launch*>(launch);
  Communicator& self = *mine.communicator;
  self.carry_out(mine);
  if (mine.captured) return;
  const std::lock_guard lock(self.mutex_);
  --self.unfinished_;
  self.changed_.notify_all();
}

/// After a failure nothing on the stream goes on until the communicator is ended, as with NCCL.
void Communicator::carry_out(const Launch& launch) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ++running_;
  }
  Launched launched;
  bool reachable = true;
  for (const Call& call : launch.calls) {
    if (launch.stream != nullptr &&
        !(there(call.send, call.send_bytes) && there(call.receive, call.receive_bytes))) {
      reachable = false;
      break;
    }
    launched.operations.push_back(call.operation);
    const auto* from = static_cast<const std::byte*>(call.send);
    launched.blocks.emplace_back(from, from + call.send_bytes);
  }
  Answered answered;
  if (told_to_fail("launch"))
    answered = {ncclSystemError, "told to fail on the stream", {}};
  else if (!reachable)
    answered = {ncclUnhandledCudaError, "an illegal memory access was encountered", {}};
  else
    answered = exchange(launched);
  if (answered.result != ncclSuccess) {
    fail(answered.result, answered.text);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  } else {
    for (std::size_t i = 0; i < launch.calls.size(); ++i)
      if (const Call& call = launch.calls[i]; call.receive_bytes > 0)
        std::memcpy(call.receive, answered.blocks[i].data(), call.receive_bytes);
  }
  const std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

Answered Communicator::exchange(const Launched& launched) {
  const std::lock_guard lock(exchange_mutex_);
  std::optional<Answered> answered;
  if (write(socket_, launched)) answered = read_answered(socket_);
  if (!answered) return {ncclRemoteError, "the ranks' meeting has gone", {}};
  return *std::move(answered);
}

/// Once all that is on the stream is done.
ncclResult_t Communicator::finalize() {
  const std::lock_guard lock(mutex_);
  busy_ = true;
  polls_ = 2;
  asked_ = [this] {
    const std::lock_guard guard(mutex_);
    busy_ = true;
    polls_ = 1 << 30;
    threads_.emplace_back([this] {
      {
        std::unique_lock waiting(mutex_);
        changed_.wait(waiting, [&] { return ended_ || unfinished_ == 0; });
        if (ended_) return;
      }
      Launched last;
      last.operations.push_back({.kind = Kind::Finalize});
      last.blocks.resize(1);
      const Answered answered = exchange(last);
      if (answered.result != ncclSuccess) return fail(answered.result, answered.text);
      const std::lock_guard ending(mutex_);
      polls_ = 1;
    });
  };
  return ncclInProgress;
}

void Communicator::end() {
  std::vector<std::thread> threads;
  {
    std::unique_lock lock(mutex_);
    ended_ = true;
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
    threads = std::exchange(threads_, {});
  }
  for (std::thread& thread : threads) thread.join();
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

int Communicator::count(const std::string& call) {
  const std::lock_guard lock(mutex_);
  return ++counts_[call];
}

bool Communicator::told_to_fail(const std::string& call) {
  const std::string told = setting("EMULATED_NCCL_FAIL");
  const std::string now = fmt::format("{}:{}", call, count(call));
  return told == now || told == fmt::format("{}:{}", now, rank());
}

void Communicator::fail(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (failed_ == ncclSuccess && !ended_) failed_ = result, say(text);
}

}  // namespace lockstep::emulated
