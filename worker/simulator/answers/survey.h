// Sizes and ints of a run: their ranges, and how they vary over ranks and over calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// A dim of a tensor, or an int, in one frame.
struct SurveyedDim {
  std::string frame, source;
  std::optional<std::size_t> dim;  // nullopt: an int
  /// Range of the values seen. If only some ranks were visited: of the values that can be drawn.
  std::int64_t least = 0, greatest = 0;
  std::size_t distinct = 0;     // number of different values, at most kDistinct
  std::size_t calls = 0;        // number of calls with this dim or int
  std::size_t calls_apart = 0;  // number of calls in which it differs between ranks
  /// Text such as "tokens.size(0)" or "n".
  [[nodiscard]] std::string name() const;
};

struct Survey {
  static constexpr std::size_t kDistinct = 256;
  std::vector<SurveyedDim> dims;  // by frame, source, dim
  bool whole = true;              // false: only some ranks of each call were visited
};

/// Visits every call, and in it every rank if at most 20 million values are drawn.
[[nodiscard]] Survey survey(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
