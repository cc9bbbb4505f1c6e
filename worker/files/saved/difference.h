// The differences between two saved programs: `lockstep show A --against B`.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/files/saved/saved_program.h>

namespace lockstep::worker {

/// One difference. For nodes, `a` and `b` are their texts with lines; one is empty if only the
/// other program has the node.
struct ProgramDifference {
  std::string where;  // "step", "entry 1, guards", "entry 1, node"
  std::string a, b;
  bool operator==(const ProgramDifference&) const = default;
};

/// Compares entries made for the same decision, and the remaining entries by number. Nodes are
/// paired by the longest common sequence of ops with equal attributes and results; paired nodes are
/// equal if their operands are paired too. Hints and lines do not count. Returns nothing if the
/// programs are equal. Pure.
[[nodiscard]] std::vector<ProgramDifference> differences(const SavedProgram& a,
                                                         const SavedProgram& b);
/// Formats differences as "- …" and "+ …" lines, below a line for each place.
[[nodiscard]] std::string differences_text(const std::vector<ProgramDifference>& found);

}  // namespace lockstep::worker
