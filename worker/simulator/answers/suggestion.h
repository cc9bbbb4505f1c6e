// Dims to mark, so that the first compile of a frame serves later sizes.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/answers/survey.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// Size or int that was a constant in an earlier entry of its frame and a symbol in a later one.
struct Suggestion {
  std::string frame, source;
  std::optional<std::size_t> dim;        // nullopt: an int, which takes no mark
  std::size_t call = 0;                  // call whose compile made it a symbol
  std::int64_t least = 0, greatest = 0;  // range in the survey
  Mark mark = Mark::Dynamic;
};

/// Suggestions by frame, source and dim.
[[nodiscard]] std::vector<Suggestion> suggest_marks(const Scenario& scenario,
                                                    const DryRunResult& result,
                                                    const Survey& survey);

/// The scenario with these dims marked wherever they are unmarked, except in calls in which a rank
/// marks them static.
[[nodiscard]] Scenario with_marks(Scenario scenario, const std::vector<Suggestion>& suggestions);

/// Code to paste. Each text is empty if there is nothing to mark.
struct MarkTexts {
  std::string cpp;       // mark_dynamic(...) lines, and constraints as comments
  std::string python;    // marks = {...}
  std::string scenario;  // "marks" by source, as JSON
};
[[nodiscard]] MarkTexts mark_texts(const std::vector<Suggestion>& suggestions);

}  // namespace lockstep::worker::simulator
