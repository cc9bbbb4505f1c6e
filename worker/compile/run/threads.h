// The threads that share the work of one step of a program. What a piece of work computes depends
// on the piece alone, so any number of threads gives the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::worker {

/// Elements below which a piece of work is not worth another thread: starting one that waits takes
/// some microseconds.
inline constexpr std::int64_t kThreadGrain = 1 << 14;

/// The calling thread and those that help it. They are started by the first work that is worth it,
/// and sleep between pieces of work. One caller at a time.
class Threads {
 public:
  /// `count` includes the caller. `grain`: elements of the smallest piece; tests take fewer.
  explicit Threads(int count = 1, std::int64_t grain = kThreadGrain)
      : count_(count), grain_(grain) {}
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  [[nodiscard]] int count() const { return count_; }
  /// Returns into how many pieces to split work of `elements`, at most `most`; a few per thread, so
  /// that threads that are slow get fewer.
  [[nodiscard]] int pieces_of(std::int64_t elements, std::int64_t most) const;

  /// Calls act(piece, thread) for each piece below `pieces`, in any order; `thread` is below
  /// count(). Returns once all calls have returned. Rethrows an exception of a call; of several,
  /// that of the lowest piece.
  template <class Act>
  void run(int pieces, const Act& act) {
    if (pieces <= 1 || count_ <= 1) {
      for (int piece = 0; piece < pieces; ++piece) act(piece, 0);
      return;
    }
    share(pieces, &act, [](const void* of, int piece, int thread) {
      (*static_cast<const Act*>(of))(piece, thread);
    });
  }

 private:
  using Call = void (*)(const void* act, int piece, int thread);
  void share(int pieces, const void* act, Call call);
  void start();
  void help(int thread);
  /// Does pieces of the current work until none is left.
  void work(int thread);

  int count_;
  std::int64_t grain_;
  std::vector<std::jthread> helpers_;

  // The current work. A thread takes a piece by adding 1 to next_, whose upper half is the number
  // of pieces; what the piece needs stays as it is until the piece is done.
  std::atomic<std::uint64_t> next_{0};
  const void* act_ = nullptr;
  Call call_ = nullptr;
  unsigned rounding_ = 0;                // how the caller's processor rounds and treats subnormals
  std::atomic<std::uint32_t> done_{0};   // pieces
  std::atomic<std::uint32_t> works_{0};  // works begun; helpers sleep until it changes
  std::atomic<bool> over_{false};
  std::mutex failing_;
  std::exception_ptr failure_;
  int failed_piece_ = 0;
};

}  // namespace lockstep::worker
