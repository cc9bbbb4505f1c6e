// Which runs of a frame on a device are recorded. Given with the frame's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::worker {

/// A recording (CUDA graph) of a run's steps is started as one: for frames of many small kernels.
/// It is made at the first run of its sizes, and copies the values that come to it and go from it.
struct RecordingOptions {
  /// By source ("batch.tokens.size(0)"), the sizes that are recorded. Any other is rounded up to
  /// the next of them where the graph allows (row_symbols.h), else that run is not recorded. A size
  /// that is not named is taken as it is.
  std::map<std::string, std::vector<std::int64_t>> sizes{};
  /// Recordings of one entry. Runs of further sizes are not recorded; none is from where a
  /// recording failed, or the device has no memory for both them and a run.
  std::size_t limit = 16;

  bool operator==(const RecordingOptions&) const = default;
};

}  // namespace lockstep::worker
