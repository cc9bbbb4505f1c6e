// The group's view of one call: every rank's observation and stored state, joined in rank order by
// the tree. Its bytes, the vector, do not grow with the number of ranks. They hold no names: the
// layout is the source list that all ranks share, else their dictionary.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/worker/agree/exchange/columns.h>
#include <lockstep/worker/agree/exchange/dictionary.h>
#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/agree/exchange/field.h>
#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/agree/exchange/roster.h>

namespace lockstep::worker {

/// One dim of a tensor, or one int, over the ranks that have it in this call.
struct DimCell {
  std::int64_t first = 0;  // on the lowest rank that has it
  std::int64_t least = 0, greatest = 0;
  std::uint8_t marks = 0;  // one bit per Mark; bit of Mark::None: some rank left it unmarked
  [[nodiscard]] bool marked(Mark mark) const {
    return (marks >> static_cast<unsigned>(mark) & 1) != 0;
  }
  bool operator==(const DimCell&) const = default;
};

/// One source that some rank has in this call.
struct SourceCell {
  /// The source on the lowest rank that has it: decide() uses this one for reports.
  struct First {
    Kind kind = Kind::Tensor;
    DType dtype = DType::F32;
    std::uint32_t ndim = 0;
    bool truth = false;  // a bool's value
    bool operator==(const First&) const = default;
  };

  std::string_view name;  // lives as long as the joint observation
  bool missing = false;   // some rank does not have it
  First first;
  std::uint8_t kinds = 0;                           // one bit per Kind that some rank has
  std::uint16_t dtypes = 0;                         // one bit per DType that some rank has
  std::uint32_t least_ndim = 0, greatest_ndim = 0;  // over the ranks that have a tensor
  std::uint8_t truths = 0;                          // bit 0: some rank has false; bit 1: true
  const DimCell* number = nullptr;                  // over the ranks that have an int, if any
  std::span<const DimCell> dims;             // by dim index, over the ranks that have that dim
  std::int64_t order = kNoOrder;             // of the dims, over the ranks that have a tensor
  const shapes::Dynamism* stored = nullptr;  // state before the call; nullptr: none
  bool settled = false;                      // all sizes and ints not marked static become symbols

  [[nodiscard]] bool has(Kind kind) const {
    return (kinds >> static_cast<unsigned>(kind) & 1) != 0;
  }
  // Parts of state(), computed without making it.
  [[nodiscard]] bool scalar_dynamic() const;
  [[nodiscard]] bool size_dynamic(std::size_t dim) const {
    if (dim < dims.size() && dims[dim].least != dims[dim].greatest) return true;
    const bool plain = stored == nullptr && number == nullptr && least_ndim == greatest_ndim;
    return !plain && dynamic_by_history(dim);
  }
  /// The smallest size seen of a dim of `dims`.
  [[nodiscard]] std::int64_t smallest(std::size_t dim) const;
  /// The stored state joined with this call.
  [[nodiscard]] shapes::Dynamism state() const;

 private:
  [[nodiscard]] bool dynamic_by_history(std::size_t dim) const;
};

/// The joined exchange. Its members refer to each other, so it can be moved but not copied.
struct JointObservation {
  std::vector<SourceCell> sources;  // in byte order of names
  FieldCells fields;
  bool same_list = false;                      // all ranks have the same list
  std::optional<FrameState> exchanged_states;  // the joined states of the ranks, if they were sent

  std::vector<DimCell> cells;         // storage of the sources' `number` and `dims`
  std::shared_ptr<const void> names;  // storage of the sources' names

  /// Sets the stored state of each source; `state` must outlive this object.
  void know(const FrameState& state);
  /// Sets whether the decision settles its frame (DecisionConfig::settle). `but_ints`: leaves out
  /// sources that are an int on some rank.
  void settle(bool on, bool but_ints);

  JointObservation() = default;
  JointObservation(JointObservation&&) = default;
  JointObservation& operator=(JointObservation&&) = default;
};

/// The state after this call. With `history`, includes the state before the call: the joined states
/// of the ranks if they were sent, else `own`.
[[nodiscard]] FrameState joined_state(const JointObservation& joint, const FrameState& own,
                                      bool history);

/// One rank's roster, without the digests of state and entries, which the caller adds. With
/// `history`, includes the names in the stored state.
[[nodiscard]] Roster roster_of(const Observation& observation, const FrameState& state,
                               bool history, const Dictionary& dictionary);

/// Appends the rank's fields to its vector.
[[nodiscard]] Bytes with_fields(Bytes vector, const Observation& observation);
/// Reads the joined fields of all ranks. Returns false if they are unreadable.
[[nodiscard]] bool read_fields(const Columns& columns, FieldCells& out);

/// One rank's vector if all ranks hold the same source list and stored state: columns laid out by
/// the list. Joined by join_columns, as mixed payloads are.
[[nodiscard]] Bytes list_payload(const Observation& observation);
/// Reads the joined vector. `state`: the stored state, equal on all ranks, which must outlive the
/// result; nullptr: history is ignored. nullopt: an invalid payload, or one over another list.
[[nodiscard]] std::optional<JointObservation> read_list_payload(
    std::span<const std::byte> joined, const std::shared_ptr<const SourceList>& list,
    const FrameState* state);

/// One rank's vector if ranks see different sources or hold different states: columns over a
/// dictionary that has all names of all ranks. `state`: this rank's if states differ, else nullptr.
[[nodiscard]] Bytes mixed_payload(const Observation& observation, const Dictionary& dictionary,
                                  const FrameState* state);
/// As read_list_payload; `state` is used only if the payload has no states.
[[nodiscard]] std::optional<JointObservation> read_mixed_payload(
    std::span<const std::byte> joined, const std::shared_ptr<const Dictionary>& dictionary,
    const FrameState* state);

}  // namespace lockstep::worker
