// A recorded job at another number of ranks: virtual ranks draw their inputs from the recorded ones
// (drawn.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/simulator/input/joint_calls.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// Different inputs of a record's ranks, each once. Filled while the record is read.
class RecordedInputs {
 public:
  /// For use as a CallVisitor.
  void add(const RankRecord& rank, const RecordedCall& call);

  /// Scenario made from a record.
  struct Drawn {
    Scenario scenario;
    std::size_t left_out = 0;     // calls in which a rank reported an error of its own
    std::size_t as_recorded = 0;  // calls in which nothing is drawn
    std::size_t inputs = 0;       // number of different inputs
  };
  /// Makes the scenario of the recorded calls on `world_size` virtual ranks. Errors: BadInput
  /// (calls of groups of ranks, frames of two agreements, or ranks that share sizes only).
  [[nodiscard]] Result<Drawn> draw(const std::vector<RankRecord>& ranks, int world_size,
                                   std::uint64_t seed) const;

 private:
  /// Inputs of one frame with one list of sources.
  struct Structure {
    std::string frame;
    std::vector<Observation> inputs;   // all different
    std::vector<std::uint32_t> times;  // how often each was recorded
  };
  struct Place {
    std::uint32_t structure = UINT32_MAX, input = 0;  // UINT32_MAX: the rank reported an error
    bool operator==(const Place&) const = default;
  };
  class Calls;

  std::vector<Structure> structures_;
  std::map<std::pair<std::string, shapes::Fingerprint>, std::uint32_t> structure_of_;
  std::map<shapes::Fingerprint, Place> known_;
  std::map<std::int32_t, std::vector<Place>> seen_;  // by rank: its calls
  bool share_sizes_only_ = false;                    // true: in some call ranks share sizes only
  std::map<std::string, int> agreement_of_;          // by frame
  std::string frame_in_two_agreements_;              // a frame of two agreements; empty: none
};

}  // namespace lockstep::worker::simulator
