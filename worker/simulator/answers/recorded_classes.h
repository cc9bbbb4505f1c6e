// The sizes that the entries of a recorded job serve: what `lockstep infer` says of a record
// without the program.
#pragma once

#include <string>
#include <vector>

#include <lockstep/shapes/size_classes.h>
#include <lockstep/worker/simulator/answers/replay.h>

namespace lockstep::worker::simulator {

/// An entry over the sizes of its structure.
struct ServedSizes {
  int entry = 0;
  std::vector<shapes::Guard> guards;  // bounds and numbers of the decision, then guards
  std::vector<std::string> given;     // guards on values that are no sizes, with their lines
  shapes::Served served;              // of the box
};

/// The entries of one frame for one list of sources and bools.
struct RecordedClasses {
  std::string group, frame, structure;  // structure_of()
  shapes::SizeBox box;
  std::vector<std::string> names;  // of its sides: what is a symbol in some entry, or differs
  std::vector<SymbolDecision> symbols;
  std::vector<ServedSizes> entries;  // not superseded
  shapes::Served unserved;           // by none of them
};

/// By group, frame and structure, in the order of the first entries. `box`: of every size and int.
[[nodiscard]] std::vector<RecordedClasses> recorded_classes(const Replay& replay,
                                                            const shapes::Range& box);

}  // namespace lockstep::worker::simulator
