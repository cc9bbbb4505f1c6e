// Turns a vote that is not unanimous into one error, the same on every rank: each rank makes a
// report, and the table of all reports is diagnosed. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agree/agreement/round_key.h>

namespace lockstep::worker {

/// A rank's contribution to a vote besides its inputs.
struct RankStatus {
  /// Digest of pending asserts and of values that the ranks agreed on.
  std::uint64_t pending = 0;
  /// A failure of this rank since the last vote (an exception between calls, a failed assert, the
  /// end of the job); it becomes the call's error on every rank.
  std::optional<Status> local_error;
  /// The node of a graph at which the error arose. All ranks get the error with the lowest node,
  /// because later errors may follow from it.
  std::uint32_t local_error_at = 0;
  /// True: this rank has not yet tested conditions of the caller's program beyond its inputs. All
  /// ranks learn this together with the entry.
  bool untested = false;
  /// The ranks for which this rank reports in tables; empty: itself only. A dry run folds ranks
  /// that do the same into one machine.
  RankSet speaks_for;
};

/// This rank's line of the rank table that follows a vote with a flag, different keys or different
/// pending digests. Every kind of round sends it that a peer may make while this rank votes on a
/// call. `remark` is added to the name of the round. `brought`: the words that have to be equal on
/// all ranks, as text.
[[nodiscard]] std::string rank_report(const RoundKey& key, const RankStatus& rank_status,
                                      std::string_view remark = {}, std::string_view brought = {});

/// A report of a rank, decoded.
struct RankReport {
  std::string frame, options, after;
  std::string key, round;  // RoundKey::text(), for readers, and round_text(), to compare
  bool words = false;      // a round of words
  std::string brought;     // its words that have to be equal on all ranks
  std::uint64_t pending = 0;
  std::optional<Status> local_error;
  std::uint32_t local_error_at = 0;
};
/// Reads a report from the start of a line; a round may append data of its own.
[[nodiscard]] RankReport read_rank_report(ByteReader& line);

/// The joint error of a table of reports. It is the earliest local error (that of the lowest rank,
/// if several ranks have one); else different frames, options, orders of frames or rounds; else
/// different pending digests.
[[nodiscard]] Status diagnose(const std::vector<RankValue>& rank_table);

/// "ranks 0-2 are the majority; " or "no majority; ", by the number of ranks in the table.
[[nodiscard]] std::string majority_text(const std::vector<RankValue>& rank_table);

/// This rank's line of the rank table that follows a step that can fail on one rank alone (trace,
/// compile). `failure` nullopt: the step succeeded.
[[nodiscard]] std::string report_line(const std::optional<Status>& failure);
/// The joint error of a table of such lines: the failure of the lowest rank that failed. `well`:
/// what the message says that the other ranks did ("traced").
[[nodiscard]] Status joint_failure(const std::vector<RankValue>& rank_table,
                                   const std::string& frame, const std::string& well);

}  // namespace lockstep::worker
