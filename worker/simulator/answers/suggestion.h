// What to mark, so that the first compile of a frame serves the sizes that came later.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/answers/survey.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// A size or int that an earlier entry of its frame had as a constant and a later one as a symbol.
struct Suggestion {
  std::string frame, source;
  std::optional<std::size_t> dim;        // nullopt: an int, which takes no mark
  std::size_t call = 0;                  // whose compile made it a symbol
  std::int64_t least = 0, greatest = 0;  // of the survey
  Mark mark = Mark::Dynamic;
};

/// By frame, source and dim.
[[nodiscard]] std::vector<Suggestion> suggest_marks(const Scenario& scenario,
                                                    const DryRunResult& result,
                                                    const Survey& survey);

/// The same scenario with these dims marked so wherever they are unmarked, but in calls in which a
/// rank marks them static.
[[nodiscard]] Scenario with_marks(Scenario scenario, const std::vector<Suggestion>& suggestions);

/// Code to paste. Each is empty where there is nothing to mark.
struct MarkTexts {
  std::string cpp;       // mark_dynamic(...) lines, and constraints as comments
  std::string python;    // marks = {...}
  std::string scenario;  // "marks" by source, as JSON
};
[[nodiscard]] MarkTexts mark_texts(const std::vector<Suggestion>& suggestions);

}  // namespace lockstep::worker::simulator
