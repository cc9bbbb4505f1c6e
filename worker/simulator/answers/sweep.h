// One scenario at several world sizes or with several seeds, one row each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator {

/// Parameter that is varied, and its values.
struct SweepRange {
  enum class Of : std::uint8_t { Ranks, Seed };
  Of of = Of::Ranks;
  std::vector<std::uint64_t> values;  // at most 64
};

/// Reads "ranks=8..131072" (8, 16, 32, …, and the end), "seed=1..5" (one by one) or
/// "ranks=8,64,512". Errors: BadInput.
[[nodiscard]] Result<SweepRange> parse_sweep(std::string_view text);

struct SweepRow {
  std::uint64_t value = 0;
  Totals totals;
  std::uint64_t bytes_per_rank_max = 0, rounds = 0;
  std::optional<Uncoordinated> uncoordinated;
  std::optional<std::int64_t> agreement_ns;  // sum over all calls, with a cost model
};

struct Sweep {
  SweepRange::Of of = SweepRange::Of::Ranks;
  std::size_t calls = 0;
  std::vector<SweepRow> rows;
};

/// Receives the sweep after each new row.
using RowMade = std::function<void(const Sweep& sweep)>;

/// Reads the scenario twice for each value: first to check it for all values, then to run it.
/// Errors: as load_scenario() and too_large().
[[nodiscard]] Result<Sweep> run_sweep(const std::string& path, const ScenarioOptions& read,
                                      const SweepRange& range, const DryRunOptions& options,
                                      const RowMade& made = {});

/// Name of the parameter: "ranks" or "seed".
[[nodiscard]] std::string_view sweep_name(SweepRange::Of of);
/// The rows as a JSON array.
[[nodiscard]] std::string sweep_rows_json(const Sweep& sweep);
/// The document "lockstep.sweep/1" (README.md, "Sweeps").
[[nodiscard]] std::string sweep_json(const Sweep& sweep);
/// The table in two parts: its head, and the last row so far.
[[nodiscard]] std::string sweep_head(const Sweep& sweep);
[[nodiscard]] std::string sweep_last_row(const Sweep& sweep);

}  // namespace lockstep::worker::simulator
