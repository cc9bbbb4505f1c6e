// A stream of an emulated device: work that a thread does in order, some time after it was asked
// for, so that whoever does not wait is found out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "memory.h"
#include <cuda.h>

namespace lockstep::emulated_cuda {

/// Ends with what went wrong on the device, if anything.
using Work = std::function<CUresult()>;
using Recording = std::shared_ptr<const std::vector<Work>>;

/// What the streams of a device share. After an error nothing is done any more, and every call
/// says it.
struct Place {
  int ordinal;
  Memory memory;
  std::atomic<CUresult> error{CUDA_SUCCESS};
};

/// Any thread.
class Stream {
 public:
  explicit Stream(Place& place);
  /// Does all that is left.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] Place& place() const { return place_; }

  /// Some time, or, while recording, part of the recording.
  CUresult start(Work work);
  /// The same of work that is done after an error too: memory comes back.
  CUresult start_always(Work work);
  CUresult start(const Recording& recording);
  CUresult wait();
  CUresult query();
  CUresult begin_recording();
  /// Null, and the stream works on, where something was done meanwhile that cannot be recorded.
  CUresult end_recording(Recording& out);
  [[nodiscard]] bool recording() const;

 private:
  struct Queued {
    Work work;
    bool always;
  };
  CUresult put(Work work, bool always);
  void work();
  /// A wait while recording spoils it.
  CUresult refused_while_recording();

  Place& place_;
  mutable std::mutex mutex_;  // guards all below but the thread
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool busy_ = false, hurried_ = false, ending_ = false;
  std::optional<std::vector<Work>> recorded_;
  bool spoilt_ = false;
  std::thread thread_;
};

}  // namespace lockstep::emulated_cuda
