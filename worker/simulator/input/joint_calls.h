// Calls of a recorded job: which calls of which ranks form one call of a group.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/record_reader.h>
#include <lockstep/worker/simulator/input/stored_calls.h>

namespace lockstep::worker::simulator {

/// Calls of a record: those of rank 0 in its order, then those of rank 1 that rank 0 lacks, and so
/// on. Calls of agreements are ordered by round. Holds 8 bytes per call; the ranks outlive it.
class JointCalls {
 public:
  explicit JointCalls(const std::vector<RankRecord>& ranks);
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  /// Number of groups that make calls. Groups of one name are one group.
  [[nodiscard]] std::size_t groups() const { return groups_.size(); }
  [[nodiscard]] const std::string& group(std::size_t call) const;
  /// Ranks of the call's group; all ranks if the group was never declared.
  [[nodiscard]] const RankSet& members(std::size_t call) const;
  /// Index of the call among the rank's calls; nullopt: the rank's record has no such call.
  [[nodiscard]] std::optional<std::size_t> of(std::size_t call, std::size_t rank) const;

 private:
  struct Group {
    std::string name;
    RankSet members;
  };
  struct Place {
    std::uint32_t group = 0, number = 0;  // index among the group's calls, or in `slots_`
  };
  void add_agreements();
  const std::vector<RankRecord>& ranks_;
  std::vector<Group> groups_;
  std::vector<Place> order_;
  std::vector<std::uint64_t> slots_;  // CallIndex::slots() of all ranks
};

/// Inputs of a recorded job's calls. Ranks with equal inputs in a call are read once.
class RecordedCalls final : public StoredCalls {
 public:
  explicit RecordedCalls(const std::vector<RankRecord>& ranks) : ranks_(ranks), joint_(ranks) {}
  [[nodiscard]] std::size_t size() const override { return joint_.size(); }
  [[nodiscard]] RankPartition partition() const override;

 private:
  /// Ranks with equal inputs, and the index of the call in the record of the lowest of them.
  struct Alike {
    RankSet ranks;
    std::size_t call = 0;
  };
  [[nodiscard]] std::vector<Alike> alike_in(std::size_t call) const;
  [[nodiscard]] Result<ScenarioCall> read(std::size_t index) const override;

  const std::vector<RankRecord>& ranks_;
  JointCalls joint_;
};

}  // namespace lockstep::worker::simulator
