// Sizes that the entries of a recorded job serve: the answer of `lockstep infer` for a record,
// without the program.
#pragma once

#include <string>
#include <vector>

#include <lockstep/shapes/size_classes.h>
#include <lockstep/worker/simulator/answers/replay.h>

namespace lockstep::worker::simulator {

/// One entry, and which sizes it serves.
struct ServedSizes {
  int entry = 0;
  std::vector<shapes::Guard> guards;  // bounds and constants of the decision, then its guards
  std::vector<std::string> given;     // guards on values that are not sizes, with their lines
  shapes::Served served;              // sizes of the box that the entry serves
};

/// Entries of one frame for one list of sources and bools.
struct RecordedClasses {
  std::string group, frame, structure;  // structure_of()
  shapes::SizeBox box;
  std::vector<std::string> names;  // per side of the box: a size that varies or is a symbol
  std::vector<SymbolDecision> symbols;
  std::vector<ServedSizes> entries;  // entries that are not superseded
  shapes::Served unserved;           // sizes of the box that no entry serves
};

/// Classes by group, frame and structure, in the order of first entries. `box`: range of every size
/// and int.
[[nodiscard]] std::vector<RecordedClasses> recorded_classes(const Replay& replay,
                                                            const shapes::Range& box);

}  // namespace lockstep::worker::simulator
