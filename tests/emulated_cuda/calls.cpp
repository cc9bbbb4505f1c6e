#include "calls.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "emulated_cuda.h"

namespace lockstep::emulated_cuda {
namespace {

struct Calls {
  std::mutex mutex;
  std::map<std::string, int> counts;
  std::string failing;
  int nth = 0;

  Calls() {
    const char* asked = std::getenv("EMULATED_CUDA_FAIL");
    const std::string text = asked == nullptr ? "" : asked;
    const auto colon = text.find(':');
    if (colon == std::string::npos) return;
    failing = text.substr(0, colon);
    nth = std::atoi(text.c_str() + colon + 1);
  }
};

/// For the life of the process: streams may outlive what is static.
Calls& calls() {
  static Calls& all = *new Calls;
  return all;
}

}  // namespace

bool told_to_fail(const char* call) {
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  return ++all.counts[call] == all.nth && all.failing == call;
}

}  // namespace lockstep::emulated_cuda

using lockstep::emulated_cuda::calls;

void emulated_cuda_fail(const char* call, int nth) {
  auto& all = calls();
  const std::lock_guard lock(all.mutex);
  all.counts.clear();
  all.failing = call;
  all.nth = nth;
}

void emulated_cuda_calls(void (*each)(void* to, const char* call, int count), void* to) {
  auto& all = calls();
  const std::lock_guard lock(all.mutex);
  for (const auto& [call, count] : all.counts) each(to, call.c_str(), count);
}
