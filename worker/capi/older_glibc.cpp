// What the C++ library that is linked into a self-contained build needs of glibc 2.36, so that it loads where glibc is
// older.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

/// As glibc's: four random bytes. Not shown outside.
extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
