// The evidence on why ranks run different programs: per line of the rank table and per source and
// size the least and the greatest value of the inputs. Its length grows with the number of distinct
// lines, not with the number of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/exchange/observation.h>

namespace lockstep::worker {

/// One source, or one size of it, over some ranks.
struct EvidenceCell {
  std::string source;
  std::int32_t dim = -1;  // -1: the source itself; an int or bool has its value there
  std::string type;       // "f32 tensor of 2 dims", "int"; empty: several; for dims empty
  std::int64_t least = 0, greatest = 0;
  bool everywhere = true;  // on every one of these ranks
  [[nodiscard]] std::string name() const;
  /// "8", "4 to 9", "float", "absent"
  [[nodiscard]] std::string value() const;
};

/// What ranks that said the same in the rank table bring.
struct Evidence {
  std::uint32_t line = 0;           // index into the rank table
  std::vector<EvidenceCell> cells;  // by source, the source itself before its dims
  // Of the lowest rank: the program in a few words, and what tells lines of its text apart.
  std::string program_text;
  std::vector<std::uint32_t> program_lines, collectives_lines;
};

[[nodiscard]] Evidence evidence_of(std::uint32_t line, const Observation& observation);
/// Of the lines of a text, each up to its tab, as many as travel; none of an empty text.
[[nodiscard]] std::vector<std::uint32_t> line_digests(std::string_view text);
/// Of two sets of ranks; the texts of `lower` stay.
[[nodiscard]] Evidence merged(const Evidence& lower, const Evidence& higher);

[[nodiscard]] Bytes evidence_payload(const Evidence& own);
/// For the tree. What cannot be read counts as no evidence.
[[nodiscard]] Bytes join_evidence(std::span<const std::byte> lower,
                                  std::span<const std::byte> higher);
/// One per line that brought any, in order of lines.
[[nodiscard]] std::vector<Evidence> read_evidence(std::span<const std::byte> payload);

/// The input that may be why ranks went different ways.
struct Cause {
  std::string name;                 // "tokens.size(0)"
  std::vector<std::string> values;  // per set of ranks
  bool separates = false;           // no value is seen in two sets
};
/// The first input by which all sets can be told apart, else the first that is not the same on all
/// ranks; nullopt where all inputs are.
[[nodiscard]] std::optional<Cause> find_cause(const std::vector<Evidence>& sets);

}  // namespace lockstep::worker
