// Which runs of a frame on a device become CUDA graphs. Given with the frame's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::worker {

/// The steps of a run, captured as a CUDA graph, are started as one: for frames of many small
/// kernels. A graph is captured at the first run of its sizes, and copies the values that come to
/// it and go from it.
struct CaptureOptions {
  /// By source ("batch.tokens.size(0)"), the sizes that are captured. Any other is rounded up to
  /// the next of them where the graph allows (row_symbols.h), else that run is not captured. A size
  /// that is not named is taken as it is.
  std::map<std::string, std::vector<std::int64_t>> sizes{};
  /// CUDA graphs of one entry. Runs of further sizes are not captured; none is from where a
  /// capture failed, or the device has no memory for both the graphs and a run.
  std::size_t limit = 16;

  bool operator==(const CaptureOptions&) const = default;
};

}  // namespace lockstep::worker
