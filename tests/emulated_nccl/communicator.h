// A communicator of the emulated NCCL: its connection to where its ranks meet, what is asked of it,
// and the order in which that is done: the stream's where the process has a libcuda with
// cuLaunchHostFunc (the emulated one), else that of a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "wire.h"

namespace lockstep::emulated {

/// One operation as it was called; addresses are of this process.
struct Call {
  Operation operation;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t send_bytes = 0, receive_bytes = 0;
};

/// The device that is current on this thread, as the emulated driver knows it.
struct CurrentDevice {
  bool known = false;  // false: no driver is loaded, and ordinal is 0
  bool current = true;
  int ordinal = 0;
  std::array<char, 16> unit{};
};
[[nodiscard]] CurrentDevice current_device();

/// What GetAsyncError, the calls and the stream share. Thread-safe.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(const Greeting& greeting, int ordinal) : greeting_(greeting), ordinal_(ordinal) {}
  ~Communicator();

  /// Joins its meeting on a thread of its own.
  void connect(const SocketName& name);
  /// One look, as ncclCommGetAsyncError makes it: what was asked for is on its way only once this
  /// has answered ncclSuccess, as with NCCL, which does it on a thread of its own.
  [[nodiscard]] ncclResult_t state();
  /// ncclSuccess where something may be asked of it now; else why not.
  [[nodiscard]] ncclResult_t ready(std::string& why);
  /// Puts one launch on the stream; nothing happens to it before state() is asked often enough.
  [[nodiscard]] ncclResult_t launch(std::vector<Call> calls, void* stream);
  [[nodiscard]] ncclResult_t finalize();
  /// What is under way ends.
  void end();

  [[nodiscard]] int size() const { return greeting_.size; }
  [[nodiscard]] int rank() const { return greeting_.rank; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  /// How often `call` has been made of it, this one included.
  [[nodiscard]] int count(const std::string& call);
  /// "ncclSend:3:1" fails the third ncclSend of rank 1; without a rank, that of every rank.
  [[nodiscard]] bool told_to_fail(const std::string& call);

 private:
  struct Launch {
    std::shared_ptr<Communicator> communicator;
    std::vector<Call> calls;
    void* stream = nullptr;
    bool captured = false;  // a recording may do it many times, or never
  };
  static void run(void* launch);
  void carry_out(const Launch& launch);
  [[nodiscard]] Answered exchange(const Launched& launched);
  void enqueue(Launch& launch);
  void work();
  void fail(ncclResult_t result, const std::string& text);

  const Greeting greeting_;
  const int ordinal_;
  std::mutex exchange_mutex_;  // of the socket, for a request and its answer

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  int socket_ = -1;
  bool connected_ = false, busy_ = false, ended_ = false;
  int polls_ = 0;
  std::function<void()> asked_;
  ncclResult_t failed_ = ncclSuccess;
  int unfinished_ = 0;  // launches on the stream
  int running_ = 0;
  std::deque<Launch*> queue_;  // of the own thread
  std::map<std::string, int> counts_;
  std::vector<std::thread> threads_;
};

/// What ncclGetLastError says.
void say(const std::string& text);
[[nodiscard]] const char* said();

/// Launches of own threads that have not ended, of all communicators of this process: for tests
/// without a stream to wait for. False where some are left after `milliseconds`.
[[nodiscard]] bool wait_for_launches(int milliseconds);

}  // namespace lockstep::emulated
