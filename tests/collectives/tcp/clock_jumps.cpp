// What stands before the system's wall clock in a program that is loaded with it (LD_PRELOAD): every
// 100 ms it jumps, by an hour or back.
#include <cstdint>
#include <ctime>

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

std::int64_t shift_s() {
  timespec steady{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
  const std::int64_t tenths = steady.tv_sec * 10 + steady.tv_nsec / 100'000'000;
  return (tenths * 7 % 5 - 2) * 3600;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto done = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (done == 0 && clock == CLOCK_REALTIME) time->tv_sec += shift_s();
  return done;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int done = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return done;
}

extern "C" time_t time(time_t* time) noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}
