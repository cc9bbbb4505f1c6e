// A stream of an emulated device: work that a thread does in order, some time after it was asked
// for, so that whoever does not wait is found out. What two streams do with the same memory has to
// be in an order that events or waits make, whatever order it happens to be done in.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "access_order.h"
#include "memory.h"
#include <cuda.h>

namespace lockstep::emulated_cuda {

/// Ends with what went wrong on the device, if anything.
using Work = std::function<CUresult()>;
using Access = AccessOrder::Access;
struct RecordedWork {
  Work work;
  std::vector<Access> accesses;
};
using Recording = std::shared_ptr<const std::vector<RecordedWork>>;

/// What the streams of a device share. After an error nothing is done any more, and every call
/// says it.
struct Place {
  int ordinal;
  Memory memory;
  std::atomic<CUresult> error{CUDA_SUCCESS};
  std::mutex mutex;  // guards all below
  AccessOrder order;
  /// As memory that is not there: an error, with what is wrong on stderr.
  void put(int stream, std::span<const Access> accesses);
};

/// A place in the order of a stream, which other streams come to wait for. Any thread.
class Mark {
 public:
  explicit Mark(AccessOrder::Time time) : time_(std::move(time)) {}
  [[nodiscard]] const AccessOrder::Time& time() const { return time_; }
  void reach();
  void wait();

 private:
  const AccessOrder::Time time_;
  std::mutex mutex_;  // guards reached_
  std::condition_variable changed_;
  bool reached_ = false;
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

  /// Some time, or, while recording, part of the recording. With the memory that it uses.
  CUresult start(std::vector<Access> accesses, Work work);
  /// The same of work that is done after an error too: memory comes back.
  CUresult start_always(std::vector<Access> accesses, Work work);
  CUresult start(const Recording& recording);
  /// Memory that is new to this stream.
  void made(std::uint64_t at, std::size_t bytes);
  CUresult mark(std::shared_ptr<Mark>& out);
  CUresult follow(const std::shared_ptr<Mark>& mark);
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
  CUresult put(std::vector<Access> accesses, Work work, bool always);
  void work();
  [[nodiscard]] std::chrono::milliseconds lag();
  void waited();
  /// A wait while recording spoils it.
  CUresult refused_while_recording(CUresult why = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);

  Place& place_;
  const int number_;
  std::minstd_rand random_;   // the thread's own
  mutable std::mutex mutex_;  // guards all below but the thread
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool busy_ = false, hurried_ = false, ending_ = false;
  std::optional<std::vector<RecordedWork>> recorded_;
  bool spoilt_ = false;
  std::thread thread_;
};

}  // namespace lockstep::emulated_cuda
