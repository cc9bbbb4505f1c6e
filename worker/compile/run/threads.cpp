#include <algorithm>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <signal.h>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <lockstep/worker/compile/run/threads.h>

namespace lockstep::worker {
namespace {

// Some 20 microseconds, in which the next step of a program usually begins; then a waiting thread
// offers its core to others, and at last it sleeps.
constexpr int kSpins = 400, kYields = 20;
constexpr int kPiecesPerThread = 4;

void pause() {
#ifdef __SSE2__
  _mm_pause();
#endif
}

unsigned rounding() {
#ifdef __SSE2__
  return _mm_getcsr() & ~_MM_EXCEPT_MASK;
#else
  return 0;
#endif
}

void set_rounding([[maybe_unused]] unsigned to) {
#ifdef __SSE2__
  if (rounding() != to) _mm_setcsr(to);
#endif
}

/// Waits until `now` is no longer `seen`.
void wait_while(const std::atomic<std::uint32_t>& now, std::uint32_t seen) {
  for (int k = 0; k < kSpins; ++k, pause())
    if (now.load(std::memory_order_acquire) != seen) return;
  for (int k = 0; k < kYields; ++k, std::this_thread::yield())
    if (now.load(std::memory_order_acquire) != seen) return;
  now.wait(seen, std::memory_order_acquire);
}

}  // namespace

Threads::~Threads() {
  over_.store(true);
  works_.fetch_add(1);
  works_.notify_all();
  helpers_.clear();  // waits for them, while what they read is there
}

int Threads::pieces_of(std::int64_t elements, std::int64_t most) const {
  if (count_ <= 1) return 1;
  return static_cast<int>(std::max<std::int64_t>(
      1, std::min({elements / grain_, most, std::int64_t{count_} * kPiecesPerThread})));
}

void Threads::start() {
  if (!helpers_.empty()) return;
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (int thread = 1; thread < count_; ++thread)
      helpers_.emplace_back([this, thread] { help(thread); });
  } catch (const std::system_error&) {  // the system gives no more threads: fewer do the work
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Threads::share(int pieces, const void* act, Call call) {
  start();
  const auto count = static_cast<std::uint32_t>(pieces);
  act_ = act;
  call_ = call;
  rounding_ = rounding();
  done_.store(0, std::memory_order_relaxed);
  next_.store(std::uint64_t{count} << 32, std::memory_order_release);
  works_.fetch_add(1, std::memory_order_release);
  works_.notify_all();
  work(0);
  for (std::uint32_t done = done_.load(std::memory_order_acquire); done != count;
       done = done_.load(std::memory_order_acquire))
    wait_while(done_, done);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Threads::work(int thread) {
  while (true) {
    const std::uint64_t taken = next_.fetch_add(1, std::memory_order_acq_rel);
    const auto pieces = static_cast<std::uint32_t>(taken >> 32),
               piece = static_cast<std::uint32_t>(taken);
    if (piece >= pieces) return;
    set_rounding(rounding_);
    try {
      call_(act_, static_cast<int>(piece), thread);
    } catch (...) {
      const std::scoped_lock lock(failing_);
      if (!failure_ || static_cast<int>(piece) < failed_piece_) {
        failure_ = std::current_exception();
        failed_piece_ = static_cast<int>(piece);
      }
    }
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) done_.notify_all();
  }
}

void Threads::help(int thread) {
  std::uint32_t seen = 0;
  while (!over_.load()) {
    wait_while(works_, seen);
    seen = works_.load(std::memory_order_acquire);
    work(thread);
  }
}

}  // namespace lockstep::worker
