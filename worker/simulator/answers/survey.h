// What sizes and ints a run met: how far they reach, how they vary over ranks and over calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// One dim of a tensor, or one int, of a frame.
struct SurveyedDim {
  std::string frame, source;
  std::optional<std::size_t> dim;  // nullopt: an int
  /// Seen; where not everything was looked at, what can be drawn.
  std::int64_t least = 0, greatest = 0;
  std::size_t distinct = 0;     // values seen, at most kDistinct
  std::size_t calls = 0;        // that have it
  std::size_t calls_apart = 0;  // in which ranks differ in it
  /// "tokens.size(0)", "n"
  [[nodiscard]] std::string name() const;
};

struct Survey {
  static constexpr std::size_t kDistinct = 256;
  std::vector<SurveyedDim> dims;  // by frame, source, dim
  bool whole = true;              // else some ranks of each call stand for the others
};

/// Looks at every call; at every rank where no more than 20 million values are drawn.
[[nodiscard]] Survey survey(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
