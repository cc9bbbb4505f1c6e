// The code cache of one frame on one rank: its entries and what has been seen of its sources. All
// ranks hold the same entries under the same index.
#pragma once

#include <lockstep/shapes/dynamism.h>
#include <lockstep/shapes/guard.h>
#include <lockstep/worker/decision.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep::worker {

/// A frame has at most this many entries: a look-up answers with one bit each.
inline constexpr int kMaxEntries = 64;

/// One compiled entry. Immutable but for `superseded`.
struct Entry {
  Decision decision;
  std::vector<shapes::Guard> guards;   // of the trace, over the decision's symbols
  shapes::GuardProgram program;
  shapes::Fingerprint graph;
  bool superseded = false;
};

/// Why an entry does not fit: what a miss explains to the user.
struct Misfit {
  int entry = 0;
  std::string reason;  // "tokens.size(0) is 7, entry has 5"; a guard's text with its line
};

struct Frame {
  std::string name;
  std::vector<Entry> entries;
  std::map<std::string, shapes::Dynamism> state;

  /// The bit mask of entries that fit this observation and are not superseded. The hot path of every
  /// call: no allocation.
  [[nodiscard]] std::uint64_t lookup(const Observation& observation) const;
  [[nodiscard]] std::vector<Misfit> explain(const Observation& observation) const;
  /// The entry to run among those that fit on every rank: fewest symbols, then lowest index.
  /// Requires a non-empty mask.
  [[nodiscard]] int pick(std::uint64_t mask) const;
};

}  // namespace lockstep::worker
