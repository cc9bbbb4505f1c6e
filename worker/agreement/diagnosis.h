// From a vote that did not come out clean to one error, the same on every rank: what each rank says
// of itself, and what the table of all that means. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agreement/round_key.h>

namespace lockstep::worker {

/// What a rank brings to a vote besides its inputs.
struct Standing {
  /// Digest of pending asserts and of values that the ranks agreed on.
  std::uint64_t pending = 0;
  /// A failure of this rank since the last vote (an exception between calls, a failed assert, the
  /// end of the job); it becomes the call's error on every rank.
  std::optional<Status> trouble;
  /// How early it came up (a node of a graph): the trouble of all ranks is the earliest one, as
  /// later ones may follow from it.
  std::uint32_t trouble_at = 0;
  /// The ranks that this one speaks for in tables; empty: itself. A dry run folds ranks that do the
  /// same into one machine.
  RankSet speaks_for;
};

/// One rank's line for the roll that follows a vote with a flag, another key or another standing.
/// Every round that can meet a call vote takes the same roll, whatever its kind.
/// `remark` is added to the name of the round.
[[nodiscard]] std::string testimony(const RoundKey& key, const Standing& standing,
                                    std::string_view remark = {});

/// A testimony as the others read it.
struct Testimony {
  std::string frame, options, after, key;  // key: RoundKey::text()
  std::uint64_t pending = 0;
  std::optional<Status> trouble;
  std::uint32_t trouble_at = 0;
};
/// Takes a testimony from the start of a line; what follows it is the round's own.
[[nodiscard]] Testimony read_testimony(ByteReader& line);

/// The error that a roll of testimonies comes to: the earliest trouble, of the lowest rank that has
/// it, else different frames, made alike or not, or rounds, else different standings.
[[nodiscard]] Status diagnose(const std::vector<RankValue>& roll);

/// "ranks 0-2 are the majority; " or "no majority; ", by the number of ranks in the table.
[[nodiscard]] std::string majority_text(const std::vector<RankValue>& roll);

/// One rank's line where a step can fail on a rank alone (trace, compile); nullopt: it went well.
[[nodiscard]] std::string report_line(const std::optional<Status>& failure);
/// The joint error of such a roll: that of the lowest rank that failed. `well` is what the table
/// says of the others ("traced").
[[nodiscard]] Status joint_failure(const std::vector<RankValue>& roll, const std::string& frame,
                                   const std::string& well);

}  // namespace lockstep::worker
