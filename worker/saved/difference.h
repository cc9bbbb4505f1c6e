// What two saved programs do not have alike: `lockstep show A --against B`.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/saved/saved_program.h>

namespace lockstep::worker {

/// One thing that differs. Of nodes `a` and `b` are their texts with lines; one is empty where only
/// the other program has it.
struct ProgramDifference {
  std::string where;  // "step", "entry 1, guards", "entry 1, node"
  std::string a, b;
  bool operator==(const ProgramDifference&) const = default;
};

/// Entries stand beside each other where they were made for the same decision, else by their
/// number. Nodes stand beside each other in the longest common sequence of ops with equal
/// attributes and results; they are the same where their operands stand beside each other, too.
/// Hints and lines do not count. Empty: the programs are the same. Pure.
[[nodiscard]] std::vector<ProgramDifference> differences(const SavedProgram& a,
                                                         const SavedProgram& b);
/// "- …" and "+ …" lines below a line for each place.
[[nodiscard]] std::string differences_text(const std::vector<ProgramDifference>& found);

}  // namespace lockstep::worker
