// The exchange as one would write it first: cells by name in maps, one rank after the other. Slow
// and obvious; the oracle of what the columns say.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/worker/exchange/exchange.h>

namespace lockstep::worker {

struct NaiveCell {
  std::size_t have = 0;  // ranks that have the source
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
  /// `state`: what the rank stored. Ranks in order.
  void add(const Observation& seen, const FrameState& state);

  /// Fails the test where `joint` says anything else. With `history`, stored states count.
  void expect_equal(const JointObservation& joint, const FrameState& own, bool history) const;
  [[nodiscard]] FrameState state(bool history) const;

 private:
  std::size_t ranks_ = 0;
  void expect_fields(const FieldCells& found) const;
  std::map<std::string, NaiveCell> cells_;
  std::map<std::string, NaiveField> fields_;
  FrameState stored_, learnt_;
};

/// The payloads of all ranks through the way that their lists and states ask for, joined one after
/// the other. `names` is what all ranks know already, and knows all names afterwards. Requires that
/// `own`, the state of the rank that reads, outlives the result.
[[nodiscard]] std::optional<JointObservation> exchange_all(const std::vector<Observation>& ranks,
                                                           const std::vector<FrameState>& states,
                                                           bool history);

/// The same without stored states.
[[nodiscard]] JointObservation joint_of(const std::vector<Observation>& ranks);

}  // namespace lockstep::worker
