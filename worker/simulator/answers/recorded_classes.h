// Sizes that the entries of a recorded job serve: the answer of `lockstep infer` for a record,
// without the program.
#pragma once

#include <string>
#include <vector>

#include <lockstep/shapes/size_classes.h>
#include <lockstep/worker/simulator/answers/replay.h>

namespace lockstep::worker::simulator {

/// Entry over the sizes of its structure.
struct ServedSizes {
  int entry = 0;
  std::vector<shapes::Guard> guards;  // bounds and constants of the decision, then guards
  std::vector<std::string> given;     // guards on values that are not sizes, with their lines
  shapes::Served served;              // of the box
};

/// Entries of one frame for one list of sources and bools.
struct RecordedClasses {
  std::string group, frame, structure;  // structure_of()
  shapes::SizeBox box;
  std::vector<std::string> names;  // of its sides: symbols of some entry, or values that differ
  std::vector<SymbolDecision> symbols;
  std::vector<ServedSizes> entries;  // not superseded
  shapes::Served unserved;           // served by none of them
};

/// Classes by group, frame and structure, in the order of first entries. `box`: of every size and
/// int.
[[nodiscard]] std::vector<RecordedClasses> recorded_classes(const Replay& replay,
                                                            const shapes::Range& box);

}  // namespace lockstep::worker::simulator
