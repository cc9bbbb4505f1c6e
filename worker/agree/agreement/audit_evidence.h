// The evidence on why ranks run different programs: for each line of the rank table, the least and
// greatest value of each source and size. Its length grows with the number of distinct lines, not
// with the number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker {

/// One source, or one of its sizes, over some ranks.
struct EvidenceCell {
  std::string source;
  std::int32_t dim = -1;  // -1: the source itself, with the value of an int or bool
  std::string type;       // "f32 tensor of 2 dims", "int"; empty: several types, or a dim
  std::int64_t least = 0, greatest = 0;
  bool everywhere = true;  // true: each of these ranks has the source or size
  [[nodiscard]] std::string name() const;
  /// "8", "4 to 9", "float", "8 or absent"
  [[nodiscard]] std::string value() const;
};

/// Evidence of the ranks that share one line of the rank table.
struct Evidence {
  std::uint32_t line = 0;           // index into the rank table
  std::vector<EvidenceCell> cells;  // sorted by source, the source itself before its dims
  // From the lowest of these ranks: the program in a few words, and digests of the lines of its
  // texts.
  std::string program_text;
  std::vector<std::uint32_t> program_lines, collectives_lines;
};

[[nodiscard]] Evidence evidence_of(std::uint32_t line, const Observation& observation);
/// One digest per line of `text`, of the part before the tab. Stops at the largest number of lines
/// that is sent.
[[nodiscard]] std::vector<std::uint32_t> line_digests(std::string_view text);
/// Merges the evidence of two sets of ranks; keeps the texts of `lower`.
[[nodiscard]] Evidence merged(const Evidence& lower, const Evidence& higher);

[[nodiscard]] Bytes evidence_payload(const Evidence& own);
/// The join for the tree. An unreadable payload counts as no evidence.
[[nodiscard]] Bytes join_evidence(std::span<const std::byte> lower,
                                  std::span<const std::byte> higher);
/// The evidence, in order of the rank table's lines; a line may have none.
[[nodiscard]] std::vector<Evidence> read_evidence(std::span<const std::byte> payload);

/// The input that may explain why ranks run different programs.
struct Cause {
  std::string name;                 // "tokens.size(0)"
  std::vector<std::string> values;  // one per set of ranks
  bool separates = false;           // true: no value occurs in two sets
};
/// The first input that separates all sets, else the first that is not the same on all ranks;
/// nullopt if all inputs are the same.
[[nodiscard]] std::optional<Cause> find_cause(const std::vector<Evidence>& sets);

}  // namespace lockstep::worker
