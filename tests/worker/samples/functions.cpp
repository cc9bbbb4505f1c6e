// The functions of all families, and what their arguments share.
#include <string>

#include "op_samples.h"

namespace lockstep::worker::samples {

const Functions& functions() {
  static const Functions all = [] {
    Functions merged;
    for (Functions family : {basics(), control(), creation(), elementwise(), index_ops(), jagged(),
                             layers(), operators(), order(), random(), windows()})
      merged.merge(family);
    return merged;
  }();
  return all;
}

DType dtype_of(Arguments name) { return dtype_from_name(name.get<std::string>()).value(); }

TensorOperand operand_of(Arguments number) {
  if (number.is_string()) return std::stod(number.get<std::string>());
  if (number.is_number_float()) return number.get<double>();
  return number.get<std::int64_t>();
}

}  // namespace lockstep::worker::samples
