#include "stream.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lockstep::emulated_cuda {
namespace {

int number_of_next(Place& place) {
  const std::lock_guard lock(place.mutex);
  return place.order.add_stream();
}

unsigned seed() {
  const char* given = std::getenv("EMULATED_CUDA_SEED");
  return given == nullptr ? 1 : static_cast<unsigned>(std::atoi(given));
}

}  // namespace

void Place::put(int stream, std::span<const Access> accesses) {
  const std::lock_guard lock(mutex);
  const std::string found = order.put(stream, accesses);
  if (found.empty() || error != CUDA_SUCCESS) return;
  std::fprintf(stderr, "emulated CUDA: on device %d %s\n", ordinal, found.c_str());
  error = CUDA_ERROR_ILLEGAL_ADDRESS;
}

void Mark::reach() {
  const std::lock_guard lock(mutex_);
  reached_ = true;
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

Stream::Stream(Place& place)
    : place_(place),
      number_(number_of_next(place)),
      random_(seed() * 1000 + static_cast<unsigned>(number_)),
      thread_([this] { work(); }) {}

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
    changed_.wait_for(lock, lag(), [this] { return ending_ || hurried_; });
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

/// How long work lies unless somebody asks for it: each stream may be far ahead of the other.
std::chrono::milliseconds Stream::lag() {
  constexpr unsigned kMost = 4;
  return std::chrono::milliseconds(random_() % (kMost + 1));
}

CUresult Stream::start(std::vector<Access> accesses, Work work) {
  return put(std::move(accesses), std::move(work), false);
}
CUresult Stream::start_always(std::vector<Access> accesses, Work work) {
  return put(std::move(accesses), std::move(work), true);
}

CUresult Stream::put(std::vector<Access> accesses, Work work, bool always) {
  const std::lock_guard lock(mutex_);
  if (spoilt_) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (recorded_) {
    recorded_->push_back({std::move(work), std::move(accesses)});
    return CUDA_SUCCESS;
  }
  place_.put(number_, accesses);
  queue_.push_back({std::move(work), always});
  changed_.notify_all();
  return place_.error;
}

CUresult Stream::start(const Recording& recording) {
  std::vector<Access> accesses;
  for (const RecordedWork& one : *recording)
    accesses.insert(accesses.end(), one.accesses.begin(), one.accesses.end());
  return start(std::move(accesses), [recording] {
    for (const RecordedWork& one : *recording)
      if (const CUresult result = one.work(); result != CUDA_SUCCESS) return result;
    return CUDA_SUCCESS;
  });
}

void Stream::made(std::uint64_t at, std::size_t bytes) {
  const std::lock_guard lock(place_.mutex);
  place_.order.made(number_, at, bytes);
}

/// Events of recorded work are not emulated.
CUresult Stream::mark(std::shared_ptr<Mark>& out) {
  if (const CUresult refused = refused_while_recording(); refused != CUDA_SUCCESS) return refused;
  {
    const std::lock_guard lock(place_.mutex);
    out = std::make_shared<Mark>(place_.order.now(number_));
  }
  return start_always({}, [mark = out] {
    mark->reach();
    return CUDA_SUCCESS;
  });
}

CUresult Stream::follow(const std::shared_ptr<Mark>& mark) {
  if (const CUresult refused = refused_while_recording(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
      refused != CUDA_SUCCESS)
    return refused;
  if (mark == nullptr) return CUDA_SUCCESS;  // an event that was never recorded
  {
    const std::lock_guard lock(place_.mutex);
    place_.order.follow(number_, mark->time());
  }
  return start_always({}, [mark] {
    mark->wait();
    return CUDA_SUCCESS;
  });
}

CUresult Stream::refused_while_recording(CUresult why) {
  const std::lock_guard lock(mutex_);
  if (!recorded_) return CUDA_SUCCESS;
  spoilt_ = true;
  return why;
}

CUresult Stream::wait() {
  if (const CUresult refused = refused_while_recording(); refused != CUDA_SUCCESS) return refused;
  std::unique_lock lock(mutex_);
  hurried_ = !queue_.empty();
  changed_.notify_all();
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  waited();
  return place_.error;
}

void Stream::waited() {
  const std::lock_guard lock(place_.mutex);
  place_.order.waited_for(number_);
}

CUresult Stream::query() {
  if (const CUresult refused = refused_while_recording(); refused != CUDA_SUCCESS) return refused;
  const std::lock_guard lock(mutex_);
  if (place_.error != CUDA_SUCCESS) return place_.error;
  if (queue_.empty() && !busy_) {
    waited();
    return CUDA_SUCCESS;
  }
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
  out = std::make_shared<const std::vector<RecordedWork>>(std::move(all));
  return place_.error;
}

bool Stream::recording() const {
  const std::lock_guard lock(mutex_);
  return recorded_.has_value();
}

}  // namespace lockstep::emulated_cuda
