// Results for a record besides its replay: what virtual ranks drew from, and which dims to mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker::simulator {

/// The recorded job that a run drew its inputs from.
struct DrawnFrom {
  int ranks = 0;
  std::uint64_t seed = 0;
  std::size_t inputs = 0;       // number of different inputs
  std::size_t as_recorded = 0;  // calls without draws
  std::size_t left_out = 0;     // calls in which a rank had an error of its own
  /// Numbers of compiled entries: with conditions known from a recorded trace, and without.
  std::size_t conditions_known = 0, conditions_not_known = 0;
};

/// A dim whose mark would have saved a compile.
struct MarkedDim {
  std::string frame, source;
  std::size_t dim = 0;
  Mark mark = Mark::Dynamic;             // or Unbacked: sizes of 0 and 1 occur too
  std::int64_t least = 0, greatest = 0;  // observed in the run
  std::size_t compiles = 0;              // compiles of its frame
  bool operator==(const MarkedDim&) const = default;
};

struct MarkAdvice {
  std::vector<MarkedDim> dims;
  bool torch = false;                             // the job calls lockstep.torch.compile()
  std::size_t compiles = 0;                       // compiles of the run
  std::optional<std::size_t> compiles_if_marked;  // nullopt: not known
};

/// "torch._dynamo.mark_dynamic(x, 0)  # step: 3 to 97, 2 compiles"
[[nodiscard]] std::string torch_line(const MarkedDim& dim);
/// Returns the lines of all dims.
[[nodiscard]] std::string torch_lines(const std::vector<MarkedDim>& dims);

// The values of the keys "drawn" and "advice" of a result, and lines of its summary.
[[nodiscard]] std::string drawn_json(const DrawnFrom& drawn);
[[nodiscard]] std::string advice_json(const MarkAdvice& advice);
[[nodiscard]] std::string drawn_summary(const DrawnFrom& drawn);
[[nodiscard]] std::string advice_summary(const MarkAdvice& advice);

}  // namespace lockstep::worker::simulator
