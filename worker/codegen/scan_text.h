// What a scan keeps from element to element, as text of a kernel: what one element adds to it, and
// what a later piece of the row does, where pieces are made at once. Used by the emitters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

struct ScanText {
  struct Kept {
    DType dtype = DType::I64;
    std::string name, first;  // `first`: before any element
    /// "long total = 0;"
    [[nodiscard]] std::string declared(std::string_view value) const;
  };
  std::vector<Kept> state;
  std::string add;     // of the element {v} at index {at} of its row
  std::string join;    // of the state part_NAME, that of the elements that follow
  std::string result;  // the scan's value at the last element added
};

/// Requires a scan (op.h) of elements of `dtype`.
[[nodiscard]] ScanText scan_text(Op op, DType dtype);

}  // namespace lockstep::worker
