// The totals of a job run with certain options, for a comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/draw/truncated_rank_set.h>

namespace lockstep::worker::simulator {

/// Why two ranks first ran different programs, or only one of them compiled.
struct Cause {
  /// Ranks with the same value.
  struct Group {
    TruncatedRankSet ranks;
    std::int64_t least = 0, greatest = 0;  // equal, unless the group holds all further values
    bool operator==(const Group&) const = default;
  };
  std::size_t call = 0;
  std::string frame;
  std::string source;         // "x.size(0)", "n"; "" if the sets of inputs differ
  std::string text;           // one sentence about two ranks
  std::vector<Group> groups;  // all ranks by the value of `source` in the call, by lowest ranks
  bool operator==(const Cause&) const = default;
};

/// Each call counts once: as an error if not all ranks make it or it ends in an error, else as a
/// fallback of some rank, else as a compile of some rank, else as a reuse.
struct RunVariant {
  std::string name;
  int compiles_per_rank_max = 0;
  int restarts_per_rank_max = 0;  // traces begun again after sizes were exchanged
  std::size_t compiles = 0, reuses = 0, fallbacks = 0, errors = 0;
  int distinct_graphs_max = 0;  // most different graphs in one call
  std::optional<std::size_t> first_divergent_call;
  std::optional<Cause> cause;  // cause of the divergence
  bool operator==(const RunVariant&) const = default;
};

/// Returns the value of the key "compare" of a result.
[[nodiscard]] std::string run_variants_json(const std::vector<RunVariant>& variants);
/// Returns a table, one variant per line, with the causes below it.
[[nodiscard]] std::string run_variants_table(const std::vector<RunVariant>& variants);

}  // namespace lockstep::worker::simulator
