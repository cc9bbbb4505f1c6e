// The exchange in its simplest form: cells by name in maps, one rank after the other. Slow and
// obvious; the oracle for the columns.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/exchange.h>

namespace lockstep::worker {

struct NaiveCell {
  std::size_t have = 0;  // number of ranks that have the source
  SourceCell::First first;
  std::uint8_t kinds = 0, truths = 0;
  std::uint16_t dtypes = 0;
  std::vector<std::int64_t> ndims;                        // of tensors
  std::set<std::int64_t> orders;                          // of tensors
  std::vector<std::int64_t> numbers;                      // of ints
  std::map<std::size_t, std::vector<std::int64_t>> dims;  // values by dim, in rank order
  std::map<std::size_t, std::uint8_t> marks;
};

/// A field over the ranks that have it.
struct NaiveField {
  std::vector<FieldSpec> specs;  // in rank order
  std::vector<FieldValue> values;
};

class NaiveExchange {
 public:
  /// Adds the next rank, in rank order. `state`: the state that it stored.
  void add(const Observation& seen, const FrameState& state);

  /// Fails the test if `joint` differs from this. With `history`, stored states count.
  void expect_equal(const JointObservation& joint, const FrameState& own, bool history) const;
  [[nodiscard]] FrameState state(bool history) const;

 private:
  std::size_t ranks_ = 0;
  void expect_fields(const FieldCells& found) const;
  std::map<std::string, NaiveCell> cells_;
  std::map<std::string, NaiveField> fields_;
  FrameState stored_, learnt_;
};

/// Joins the payloads of all ranks, one after the other, in the exchange that their lists and
/// states ask for; the result is that of rank 0. With `history`, states[0] must outlive it.
[[nodiscard]] std::optional<JointObservation> exchange_all(const std::vector<Observation>& ranks,
                                                           const std::vector<FrameState>& states,
                                                           bool history);

/// Like exchange_all(), without stored states.
[[nodiscard]] JointObservation joint_of(const std::vector<Observation>& ranks);

}  // namespace lockstep::worker
