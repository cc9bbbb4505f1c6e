// What a prefetch promises: that the next call of the frame will see inputs of these very sizes and
// values. Pure.
#pragma once

#include <optional>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agreement/code_cache.h>

namespace lockstep::worker {

/// The error of a call of `frame` that sees `given` where `promised` was prefetched; it names the
/// first source that differs, with both values. nullopt: the promise is kept. Floats and the
/// elements of tensors are runtime values and may be any, but for branches that an entry took on
/// them; so may the order of dims, on which no entry depends.
[[nodiscard]] std::optional<Status> broken_promise(const Frame& frame, const Observation& promised,
                                                   const Observation& given);

}  // namespace lockstep::worker
