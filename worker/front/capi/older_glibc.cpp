// The functions that a self-contained build takes from glibc, limited to what glibc 2.28 has, so
// that the build loads with that version or a newer one. A function that 2.28 has is linked under
// its first symbol version; a function that 2.28 lacks is made of others. Each function is defined
// here under its own name, hidden, and omitted if unused.
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOCKSTEP_HIDDEN extern "C" __attribute__((visibility("hidden")))

#if defined(__x86_64__)
#define LOCKSTEP_FIRST "GLIBC_2.2.5"
#define LOCKSTEP_JUMP(name) "jmp *" name "@GOTPCREL(%rip)\n"
#elif defined(__aarch64__)
#define LOCKSTEP_FIRST "GLIBC_2.17"
#define LOCKSTEP_JUMP(name) "b " name "\n"
#endif

#ifdef LOCKSTEP_FIRST
// Defines each function as a jump to its old symbol, which works for every signature.
#define LOCKSTEP_OF(name, version)                                                             \
  asm(".symver lockstep_old_" #name ", " #name "@" version "\n.pushsection .text.older." #name \
      ", \"ax\"\n"                                                                             \
      ".globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name                \
      ":\n" LOCKSTEP_JUMP("lockstep_old_" #name) ".size " #name ", . - " #name "\n.popsection\n");
#define LOCKSTEP_OLD(name) LOCKSTEP_OF(name, LOCKSTEP_FIRST)

LOCKSTEP_OLD(exp)
LOCKSTEP_OLD(exp2)
LOCKSTEP_OLD(log)
LOCKSTEP_OLD(pow)
LOCKSTEP_OLD(dladdr)
LOCKSTEP_OLD(dlclose)
LOCKSTEP_OLD(dlerror)
LOCKSTEP_OLD(dlopen)
LOCKSTEP_OLD(dlsym)
LOCKSTEP_OLD(pthread_create)
LOCKSTEP_OLD(pthread_detach)
LOCKSTEP_OLD(pthread_getspecific)
LOCKSTEP_OLD(pthread_join)
LOCKSTEP_OLD(pthread_key_create)
LOCKSTEP_OLD(pthread_key_delete)
LOCKSTEP_OLD(pthread_mutex_trylock)
LOCKSTEP_OLD(pthread_mutexattr_destroy)
LOCKSTEP_OLD(pthread_mutexattr_init)
LOCKSTEP_OLD(pthread_mutexattr_settype)
LOCKSTEP_OLD(pthread_once)
LOCKSTEP_OLD(pthread_rwlock_destroy)
LOCKSTEP_OLD(pthread_rwlock_init)
LOCKSTEP_OLD(pthread_rwlock_rdlock)
LOCKSTEP_OLD(pthread_rwlock_unlock)
LOCKSTEP_OLD(pthread_rwlock_wrlock)
LOCKSTEP_OLD(pthread_setspecific)
LOCKSTEP_OLD(pthread_sigmask)
LOCKSTEP_OLD(shm_open)
LOCKSTEP_OLD(shm_unlink)
#if defined(__x86_64__)
LOCKSTEP_OF(pthread_condattr_setclock, "GLIBC_2.3.3")
#else
LOCKSTEP_OLD(pthread_condattr_setclock)
#endif
#endif

/// Since glibc 2.32. 0: the process may have several threads.
LOCKSTEP_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

/// Since glibc 2.36.
LOCKSTEP_HIDDEN std::uint32_t arc4random() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}

/// Since glibc 2.30.
LOCKSTEP_HIDDEN pid_t gettid() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

/// Since glibc 2.33; before, these were inline functions.
LOCKSTEP_HIDDEN int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, folder, path, out, flags));
}
LOCKSTEP_HIDDEN int fstat(int file, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, out));
}
LOCKSTEP_HIDDEN int stat(const char* path, struct stat* out) noexcept {
  return fstatat(AT_FDCWD, path, out, 0);
}
LOCKSTEP_HIDDEN int lstat(const char* path, struct stat* out) noexcept {
  return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
static_assert(sizeof(struct stat) == sizeof(struct stat64));
LOCKSTEP_HIDDEN int fstat64(int file, struct stat64* out) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, out));
}
LOCKSTEP_HIDDEN int stat64(const char* path, struct stat64* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, 0));
}
LOCKSTEP_HIDDEN int lstat64(const char* path, struct stat64* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW));
}

/// Since glibc 2.30. If glibc lacks it, the deadline is converted to the real-time clock, by the
/// present difference of the two clocks.
LOCKSTEP_HIDDEN int pthread_cond_clockwait(pthread_cond_t* changed, pthread_mutex_t* mutex,
                                           clockid_t clock, const struct timespec* until) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static const Wait of_glibc =
      reinterpret_cast<Wait>(::dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (of_glibc != nullptr) return of_glibc(changed, mutex, clock, until);
  if (clock == CLOCK_REALTIME) return ::pthread_cond_timedwait(changed, mutex, until);
  constexpr long kSecond = 1'000'000'000;
  struct timespec now, real;
  ::clock_gettime(clock, &now);
  ::clock_gettime(CLOCK_REALTIME, &real);
  struct timespec when = {until->tv_sec - now.tv_sec + real.tv_sec,
                          until->tv_nsec - now.tv_nsec + real.tv_nsec};
  when.tv_sec += when.tv_nsec / kSecond;
  when.tv_nsec %= kSecond;
  if (when.tv_nsec < 0) when.tv_nsec += kSecond, --when.tv_sec;
  return ::pthread_cond_timedwait(changed, mutex, &when);
}
