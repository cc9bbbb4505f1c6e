// Which runs of a frame on a device become CUDA graphs. Part of the frame's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::worker {

/// Starts the steps of a run as captured CUDA graphs: for frames of many small kernels. A graph is
/// captured at the first run of its sizes, and copies its inputs in and its results out.
struct CaptureOptions {
  /// The sizes that are captured, by source ("batch.tokens.size(0)"). Another size is rounded up to
  /// the next listed one where the graph allows (row_symbols.h), else that run is not captured. A
  /// source that is not listed is captured at every size.
  std::map<std::string, std::vector<std::int64_t>> sizes{};
  /// Most CUDA graphs of one entry. Runs of further sizes are not captured. Capturing stops once a
  /// capture fails, or the device has no memory for both the graphs and a run.
  std::size_t limit = 16;

  bool operator==(const CaptureOptions&) const = default;
};

}  // namespace lockstep::worker
