#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/base/turn.h>

namespace lockstep {
namespace {

/// The kernel's number of this thread, as debuggers and `top -H` show it.
int this_thread() {
  thread_local const int number = ::gettid();
  return number;
}

std::string name_of(int thread) {
  return thread == ::getpid() ? fmt::format("the main thread ({})", thread)
                              : fmt::format("thread {}", thread);
}

}  // namespace

Result<Turn> Turns::take(std::string_view call) {
  const int thread = this_thread();
  int has = thread_.load(std::memory_order_relaxed);
  if (has != thread) {
    has = 0;
    if (!thread_.compare_exchange_strong(has, thread, std::memory_order_acquire))
      return refused(call, has);
  }
  ++depth_;
  return Turn(*this);
}

Status Turns::refused(std::string_view call, int by) const {
  return bad_input(
      fmt::format("{}: {} calls it while a call of {} is under way, and {} takes one call at a "
                  "time; make the calls of all threads one after the other, with one mutex "
                  "around each, or on one thread",
                  call, name_of(this_thread()), name_of(by), of_));
}

}  // namespace lockstep
