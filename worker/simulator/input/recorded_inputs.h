// The job of a record at another number of ranks: virtual ranks draw their inputs from the recorded
// ones (drawn.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/simulator/input/joint_calls.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// What the ranks of a record saw, each different input once. Filled while the record is read.
class RecordedInputs {
 public:
  /// As CallVisitor.
  void add(const RankRecord& rank, const RecordedCall& call);

  /// What was made of a record.
  struct Drawn {
    Scenario scenario;
    std::size_t left_out = 0;     // calls to which a rank brought an error of its own
    std::size_t as_recorded = 0;  // calls that ranks did not make alike: nothing is drawn in them
    std::size_t inputs = 0;       // different ones
  };
  /// The recorded calls on `world_size` virtual ranks. Errors: BadInput (calls of groups of ranks,
  /// frames of two agreements, or where ranks share sizes only).
  [[nodiscard]] Result<Drawn> draw(const std::vector<RankRecord>& ranks, int world_size,
                                   std::uint64_t seed) const;

 private:
  /// A frame and a list of sources.
  struct Structure {
    std::string frame;
    std::vector<Observation> inputs;   // each different one
    std::vector<std::uint32_t> times;  // that each was recorded
  };
  struct Place {
    std::uint32_t structure = UINT32_MAX, input = 0;  // UINT32_MAX: the rank brought an error
    bool operator==(const Place&) const = default;
  };
  class Calls;

  std::vector<Structure> structures_;
  std::map<std::pair<std::string, shapes::Fingerprint>, std::uint32_t> structure_of_;
  std::map<shapes::Fingerprint, Place> known_;
  std::map<std::int32_t, std::vector<Place>> seen_;  // by rank: its calls
  bool share_sizes_only_ = false;                    // in some call
  std::map<std::string, int> agreement_of_;          // by frame
  std::string of_two_;                               // a frame of two agreements; empty: none
};

}  // namespace lockstep::worker::simulator
