// Numbers of tensors and frames in the messages between a controller and its workers.
#pragma once

#include <cstdint>

namespace lockstep::worker {

/// A tensor that workers hold, one on each under the same number. The controller assigns numbers
/// upwards from 1, and never reuses one in a job.
enum class Handle : std::uint64_t {};
/// A frame of the workers' job, counted from 0 in the order in which frames are made.
enum class FrameNumber : std::uint32_t {};

[[nodiscard]] constexpr Handle after(Handle first, std::uint64_t count) {
  return Handle{static_cast<std::uint64_t>(first) + count};
}

}  // namespace lockstep::worker
