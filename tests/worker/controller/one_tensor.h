// Frames of one tensor, for tests of a controller.
#pragma once

#include <cstdint>

#include <lockstep/worker/job.h>

namespace lockstep::worker::test {

struct X {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

inline Array ones(std::int64_t rows, double value = 1) {
  Array out(DType::F64, {rows});
  for (std::int64_t i = 0; i < rows; ++i) out.set(i, value);
  return out;
}

}  // namespace lockstep::worker::test
