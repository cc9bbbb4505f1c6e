#include "stream.h"

#include <utility>

namespace lockstep::emulated_cuda {
namespace {

// How long work lies unless somebody asks for it.
constexpr std::chrono::milliseconds kLag{2};

}  // namespace

Stream::Stream(Place& place) : place_(place), thread_([this] { work(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    changed_.wait_for(lock, kLag, [this] { return ending_ || hurried_; });
    while (!queue_.empty()) {
      const Queued next = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      if (next.always || place_.error == CUDA_SUCCESS)
        if (const CUresult result = next.work(); result != CUDA_SUCCESS) place_.error = result;
      lock.lock();
      busy_ = false;
    }
    hurried_ = false;
    changed_.notify_all();
  }
}

CUresult Stream::start(Work work) { return put(std::move(work), false); }
CUresult Stream::start_always(Work work) { return put(std::move(work), true); }

CUresult Stream::put(Work work, bool always) {
  const std::lock_guard lock(mutex_);
  if (spoilt_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (recorded_) {
    recorded_->push_back(std::move(work));
    return CUDA_SUCCESS;
  }
  queue_.push_back({std::move(work), always});
  changed_.notify_all();
  return place_.error;
}

CUresult Stream::start(const Recording& recording) {
  return start([recording] {
    for (const Work& work : *recording)
      if (const CUresult result = work(); result != CUDA_SUCCESS) return result;
    return CUDA_SUCCESS;
  });
}

CUresult Stream::refused_while_recording() {
  const std::lock_guard lock(mutex_);
  if (!recorded_) return CUDA_SUCCESS;
  spoilt_ = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Stream::wait() {
  if (const CUresult refused = refused_while_recording(); refused != CUDA_SUCCESS) return refused;
  std::unique_lock lock(mutex_);
  hurried_ = !queue_.empty();
  changed_.notify_all();
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  return place_.error;
}

CUresult Stream::query() {
  if (const CUresult refused = refused_while_recording(); refused != CUDA_SUCCESS) return refused;
  const std::lock_guard lock(mutex_);
  if (place_.error != CUDA_SUCCESS) return place_.error;
  if (queue_.empty() && !busy_) return CUDA_SUCCESS;
  hurried_ = true;
  changed_.notify_all();
  return CUDA_ERROR_NOT_READY;
}

CUresult Stream::begin_recording() {
  const std::lock_guard lock(mutex_);
  if (recorded_) return CUDA_ERROR_ILLEGAL_STATE;
  recorded_.emplace();
  return place_.error;
}

CUresult Stream::end_recording(Recording& out) {
  const std::lock_guard lock(mutex_);
  out = nullptr;
  if (!recorded_) return CUDA_ERROR_ILLEGAL_STATE;
  auto all = std::move(*recorded_);
  recorded_.reset();
  if (std::exchange(spoilt_, false)) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  out = std::make_shared<const std::vector<Work>>(std::move(all));
  return place_.error;
}

bool Stream::recording() const {
  const std::lock_guard lock(mutex_);
  return recorded_.has_value();
}

}  // namespace lockstep::emulated_cuda
