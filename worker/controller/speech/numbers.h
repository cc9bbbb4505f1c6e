// The numbers by which a controller and its workers speak of tensors and frames.
#pragma once

#include <cstdint>

namespace lockstep::worker {

/// A tensor that workers hold, one on each under the same number. Numbers are given out by the
/// controller, upwards from 1, and never twice in a job.
enum class Handle : std::uint64_t {};
/// A frame of the workers' job, counted from 0 in the order in which frames are made.
enum class FrameNumber : std::uint32_t {};

[[nodiscard]] constexpr Handle after(Handle first, std::uint64_t count) {
  return Handle{static_cast<std::uint64_t>(first) + count};
}

}  // namespace lockstep::worker
