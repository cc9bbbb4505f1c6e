// What the group sees of one call: every rank's observation and stored state, joined in rank order
// by the tree. The joined payload is as long for a million ranks as for two.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/shapes/dynamism.h>
#include <lockstep/worker/columns.h>
#include <lockstep/worker/observation.h>

namespace lockstep::worker {

/// One dim of a tensor, or one int, over the ranks that have it in this call.
struct DimCell {
  Rank first_rank;         // the lowest rank that has it
  std::int64_t first = 0;  // its value there
  std::int64_t least = 0, greatest = 0;
  std::uint8_t marks = 0;  // one bit per Mark; that of Mark::None: some rank left it unmarked
  [[nodiscard]] bool marked(Mark mark) const {
    return (marks >> static_cast<unsigned>(mark) & 1) != 0;
  }
  bool operator==(const DimCell&) const = default;
};

/// One source: this call's view of it, and its stored state joined with this call.
struct SourceCell {
  /// What the lowest rank that has the source sees; under shared_sizes this is what is reported.
  struct First {
    Rank rank;
    Kind kind = Kind::Tensor;
    DType dtype = DType::F32;
    std::uint32_t ndim = 0;
    bool truth = false;  // a bool's value
    bool operator==(const First&) const = default;
  };

  std::string name;
  bool missing = false;                             // some rank does not have it in this call
  std::optional<First> first;                       // nullopt: known from stored state only
  std::uint8_t kinds = 0;                           // one bit per Kind that some rank has
  std::uint16_t dtypes = 0;                         // one bit per DType that some rank has
  std::uint32_t least_ndim = 0, greatest_ndim = 0;  // over the ranks that have a tensor
  std::uint8_t truths = 0;                          // bit 0: some rank has false; bit 1: true
  std::optional<DimCell> number;                    // over the ranks that have an int
  std::vector<DimCell> dims;  // by dim index, over the ranks that have that dim
  shapes::Dynamism state;

  [[nodiscard]] bool has(Kind kind) const {
    return (kinds >> static_cast<unsigned>(kind) & 1) != 0;
  }
  bool operator==(const SourceCell&) const = default;
};

/// The joined payload.
struct JointObservation {
  std::vector<SourceCell> sources;  // by the bytes of their names
  shapes::Fingerprint cache;        // the entries of the lowest rank's cache
  bool cache_differs = false;       // some rank has other entries
  bool operator==(const JointObservation&) const = default;
};

using FrameState = std::map<std::string, shapes::Dynamism>;

/// One rank's part. With `history` every stored source travels, so that ranks with different
/// profiles come to the same state; without it the call stands alone.
[[nodiscard]] JointObservation observe(Rank self, const Observation& observation,
                                       const FrameState& state, bool history,
                                       const shapes::Fingerprint& cache);

/// One rank's part where all ranks hold the same source list and the same stored state, as the vote
/// told: no names, no state; columns over the values of the list (columns.h).
[[nodiscard]] Bytes list_payload(const Observation& observation);
/// What the group sees, from the joined columns of such payloads and this rank's own list and
/// stored state. nullopt: not such a payload, or one over another list.
[[nodiscard]] std::optional<JointObservation> read_list_payload(std::span<const std::byte> joined,
                                                                const SourceList& list,
                                                                const FrameState& state,
                                                                bool history);

/// lower's ranks are below higher's. Associative.
[[nodiscard]] JointObservation join(const JointObservation& lower, const JointObservation& higher);

[[nodiscard]] Bytes encode(const JointObservation& joint);
/// nullopt: not such a payload.
[[nodiscard]] std::optional<JointObservation> decode_joint(std::span<const std::byte> bytes);
/// For the tree. A payload that cannot be read makes the result empty, which cannot be read either.
[[nodiscard]] Bytes join_payloads(std::span<const std::byte> lower,
                                  std::span<const std::byte> higher);

}  // namespace lockstep::worker
