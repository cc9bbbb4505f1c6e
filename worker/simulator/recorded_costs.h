// What compiling and stepping took in a recorded job: the figures of a cost model, measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::simulator {

/// Medians over all ranks and calls of a frame.
struct RecordedCost {
  std::optional<std::int64_t> compile_ns;  // trace and build; nullopt: it was never compiled
  std::int64_t step_ns = 0;                // from the end of a call to the next call of any frame
};

/// By frame. Errors: BadInput (no record, or a damaged one).
[[nodiscard]] Result<std::map<std::string, RecordedCost>> recorded_costs(
    const std::string& directory);

}  // namespace lockstep::worker::simulator
