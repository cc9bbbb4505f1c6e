// What the group sees of one call: every rank's observation and stored state, joined in rank order
// by the tree. The vector is as long for a million ranks as for two, and names are not in it: it
// goes by the source list that all ranks share, else by their dictionary.
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
#include <lockstep/worker/exchange/columns.h>
#include <lockstep/worker/exchange/dictionary.h>
#include <lockstep/worker/exchange/dim_order.h>
#include <lockstep/worker/exchange/field.h>
#include <lockstep/worker/exchange/observation.h>
#include <lockstep/worker/exchange/roster.h>

namespace lockstep::worker {

/// One dim of a tensor, or one int, over the ranks that have it in this call.
struct DimCell {
  std::int64_t first = 0;  // on the lowest rank that has it
  std::int64_t least = 0, greatest = 0;
  std::uint8_t marks = 0;  // one bit per Mark; that of Mark::None: some rank left it unmarked
  [[nodiscard]] bool marked(Mark mark) const {
    return (marks >> static_cast<unsigned>(mark) & 1) != 0;
  }
  bool operator==(const DimCell&) const = default;
};

/// One source that some rank has in this call.
struct SourceCell {
  /// What the lowest rank that has the source sees; under shared_sizes this is what is reported.
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
  const shapes::Dynamism* stored = nullptr;  // what was known before; nullptr: nothing
  bool settled = false;                      // all that is not marked static is to be a symbol

  [[nodiscard]] bool has(Kind kind) const {
    return (kinds >> static_cast<unsigned>(kind) & 1) != 0;
  }
  /// What was known joined with this call, field by field, without making it.
  [[nodiscard]] bool scalar_dynamic() const;
  [[nodiscard]] bool size_dynamic(std::size_t dim) const {
    if (dim < dims.size() && dims[dim].least != dims[dim].greatest) return true;
    const bool plain = stored == nullptr && number == nullptr && least_ndim == greatest_ndim;
    return !plain && dynamic_by_history(dim);
  }
  /// The smallest size seen of a dim of `dims`.
  [[nodiscard]] std::int64_t smallest(std::size_t dim) const;
  /// All of it.
  [[nodiscard]] shapes::Dynamism state() const;

 private:
  [[nodiscard]] bool dynamic_by_history(std::size_t dim) const;
};

/// The joined exchange. Its cells refer to each other: it moves, but is not copied.
struct JointObservation {
  std::vector<SourceCell> sources;  // by the bytes of their names
  FieldCells fields;
  bool same_list = false;               // on all ranks
  std::optional<FrameState> travelled;  // the states of ranks that hold different ones, joined

  std::vector<DimCell> cells;         // what `number` and `dims` of the sources refer to
  std::shared_ptr<const void> names;  // what the names of the sources refer to

  /// Tells the sources what was stored of them; `state` outlives this.
  void know(const FrameState& state);
  /// Whether the decision is to settle its frame (DecisionConfig::settle). `but_ints`: sources that
  /// are an int on some rank are left as they are.
  void settle(bool on, bool but_ints);

  JointObservation() = default;
  JointObservation(JointObservation&&) = default;
  JointObservation& operator=(JointObservation&&) = default;
};

/// The state after this call: with `history` this rank's own (or what travelled) joined with it.
[[nodiscard]] FrameState joined_state(const JointObservation& joint, const FrameState& own,
                                      bool history);

/// One rank's line in the roster. With `history` its stored names are to be known too.
[[nodiscard]] Roster roster_of(const Observation& observation, const FrameState& state,
                               bool history, const Dictionary& dictionary);

/// Puts the rank's fields behind its vector.
[[nodiscard]] Bytes with_fields(Bytes vector, const Observation& observation);
/// Reads those of all ranks. False: unreadable.
[[nodiscard]] bool read_fields(const Columns& columns, FieldCells& out);

/// One rank's vector where all ranks hold one source list and one stored state: columns over the
/// values of the list. join_columns joins them, as those below.
[[nodiscard]] Bytes list_payload(const Observation& observation);
/// What the group sees. `state` is what all ranks stored, outlives the result; nullptr: history
/// does not count. nullopt: not such a payload, or one over another list.
[[nodiscard]] std::optional<JointObservation> read_list_payload(
    std::span<const std::byte> joined, const std::shared_ptr<const SourceList>& list,
    const FrameState* state);

/// One rank's vector where ranks see different sources: columns over a dictionary, which knows all
/// names of all ranks. `state`: this rank's, where ranks hold different ones; else nullptr.
[[nodiscard]] Bytes mixed_payload(const Observation& observation, const Dictionary& dictionary,
                                  const FrameState* state);
/// As read_list_payload; `state` counts where none travelled.
[[nodiscard]] std::optional<JointObservation> read_mixed_payload(
    std::span<const std::byte> joined, const std::shared_ptr<const Dictionary>& dictionary,
    const FrameState* state);

}  // namespace lockstep::worker
