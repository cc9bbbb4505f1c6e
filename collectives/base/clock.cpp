#include <lockstep/collectives/base/clock.h>

namespace lockstep {

Instant SystemClock::now() const { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace lockstep
